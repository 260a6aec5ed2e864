"""What is done beside the compiler; what fails there is told by the stage that needs it."""

import os
import subprocess
import sys
from threading import Event

import pytest

from warpsmith.evaluation.check.compare import Comparison
from warpsmith.evaluation.check.fault import look
from warpsmith.evaluation.processes import warm as module
from warpsmith.evaluation.processes.nursery import ENVIRONMENT
from warpsmith.evaluation.processes.warm import TASKS, get_ready, open_early, rehearse
from warpsmith.machines.hardware.lease import Need, lease
from warpsmith.machines.worker.session import Shown
from warpsmith.records import Direction, Task, Trial
from warpsmith.tasks.reference.program import Problem

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
def test_a_device_that_cannot_be_opened_is_left_to_the_stage_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def failing() -> None:
        tried.append(1)
        raise RuntimeError("no GPU")

    monkeypatch.setattr(module, "open_device", failing)
    open_early(Event())
    with lease(Need.ALONE):  # nothing is held any more
        assert tried == [1]


@pytest.mark.usefixtures("home")
def test_the_device_is_opened_beside_what_is_loaded_and_a_check_rehearsed_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []
    opened, rehearsed = Event(), Event()

    def opening() -> None:
        happened.append("opened")
        opened.set()

    def shaping(*_arguments: object) -> None:
        assert opened.wait(10)  # the other thread does not wait for this one
        happened.append("loaded")
        raise RuntimeError("no shape")  # nor does this keep it waiting

    def rehearsing(device: str) -> None:
        happened.append(f"rehearsed on {device}")
        rehearsed.set()

    monkeypatch.setattr(module, "open_device", opening)
    monkeypatch.setattr(module, "rehearse", rehearsing)
    monkeypatch.setattr("warpsmith.tasks.reference.fresh.outline", shaping)
    get_ready()
    assert rehearsed.wait(10)
    assert happened == ["opened", "loaded", "rehearsed on cuda"]


def test_a_check_is_rehearsed_both_ways_on_whatever_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Direction]] = []

    def looked(shown: Shown, call: Problem, task: Task, direction: Direction, trial: Trial) -> Comparison:
        seen.append((task.name, direction))
        return look(shown, call, task, direction, trial)

    monkeypatch.setattr("warpsmith.evaluation.check.fault.look", looked)
    rehearse("cpu")
    assert seen == [(task, way) for task in TASKS for way in Direction]


@pytest.mark.usefixtures("home")
def test_what_is_slow_is_loaded_without_threads_or_a_gpu() -> None:
    """Whoever forks needs both."""
    env = {**os.environ, **ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", LOADED], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1", "False"]
