"""What is done beside the compiler: in this order, once, and what fails there is told by the stage that needs it."""

import subprocess
import sys

import pytest

from warpsmith.bench import warm as module
from warpsmith.bench.lease import Need, lease
from warpsmith.bench.warm import warm

ORDER = """
import sys
from warpsmith.bench import warm
assert "sympy" not in sys.modules
warm.open_device = lambda: print("sympy" in sys.modules)
warm.warm()
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
    warm()
    with lease(Need.ALONE):  # nothing is held any more
        assert tried == [1]


def test_the_modules_of_shapes_are_loaded_before_the_device_is_opened(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", ORDER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
