"""What is done beside the compiler; what fails there is told by the stage that needs it."""

import os
import subprocess
import sys
from threading import Event

import pytest

from warpsmith.evaluation.processes.nursery import ENVIRONMENT
from warpsmith.evaluation.processes.warm import TASKS, get_ready, prepare_device, rehearse
from warpsmith.machines.hardware.leases import Need, lease
from warpsmith.records import Direction

PATIENCE_S = 120.0  # a bound on a hang, not a measurement
LOADED = """
import os, sys
from warpsmith.evaluation.processes import warm
assert "torch" not in sys.modules
warm.load()
import torch
timed = "warpsmith.evaluation.timing.stage" in sys.modules
print(timed, len(os.listdir("/proc/self/task")), torch.cuda.is_initialized())
"""


@pytest.mark.usefixtures("home")
def test_a_device_that_cannot_be_opened_is_left_to_the_stage_that_needs_it() -> None:
    tried: list[int] = []

    def failing() -> None:
        tried.append(1)
        raise RuntimeError("no GPU")

    prepare_device(Event(), open_device=failing)
    with lease(Need.ALONE):  # nothing is held any more
        assert tried == [1]


@pytest.mark.usefixtures("home")
def test_the_device_is_opened_beside_what_is_loaded_and_a_check_rehearsed_after() -> None:
    happened: list[str] = []
    opened, rehearsed = Event(), Event()

    def opening() -> None:
        happened.append("opened")
        opened.set()

    def shaping() -> None:
        assert opened.wait(PATIENCE_S)  # the other thread does not wait for this one
        happened.append("loaded")
        raise RuntimeError("no shape")  # nor does this keep it waiting

    def rehearsing(device: str) -> None:
        happened.append(f"rehearsed on {device}")
        rehearsed.set()

    get_ready(shaping, lambda loaded: prepare_device(loaded, opening, rehearsing))
    assert rehearsed.wait(PATIENCE_S)
    assert happened == ["opened", "loaded", "rehearsed on cuda"]


def test_a_check_is_rehearsed_both_ways_on_whatever_device() -> None:
    assert rehearse("cpu") == [(task, way) for task in TASKS for way in Direction]


@pytest.mark.usefixtures("home")
def test_what_is_slow_is_loaded_without_threads_or_a_gpu() -> None:
    """Whoever forks needs both."""
    env = {**os.environ, **ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", LOADED], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1", "False"]
