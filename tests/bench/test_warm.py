"""What is done beside the compiler; what fails there is told by the stage that needs it."""

import subprocess
import sys

import pytest

from warpsmith.bench import warm as module
from warpsmith.bench.lease import Need, lease
from warpsmith.bench.warm import open_early

LOADED = """
import sys, threading
from warpsmith.bench import warm
assert "torch" not in sys.modules
warm.load()
import torch
print("sympy" in sys.modules, "warpsmith.timing.stage" in sys.modules)
print(threading.active_count(), torch.cuda.is_initialized())
"""


def test_a_device_that_cannot_be_opened_is_left_to_the_stage_that_needs_it(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    tried: list[int] = []

    def failing() -> None:
        tried.append(1)
        raise RuntimeError("no GPU")

    monkeypatch.setattr(module, "open_device", failing)
    open_early()
    with lease(Need.ALONE):  # nothing is held any more
        assert tried == [1]


def test_what_is_slow_is_loaded_without_threads_or_a_gpu(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forks needs both."""
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "1", "False"]
