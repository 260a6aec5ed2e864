"""What is done beside the compiler: on a machine without a GPU it fails, and nobody hears of it."""

import sys

import pytest

from warpsmith.base import MachineError
from warpsmith.bench import warm as module
from warpsmith.bench.warm import begin_warming


def test_it_begins_once_and_its_failure_is_not_ours_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def failing() -> None:
        begun.append(1)
        raise MachineError("no GPU")

    monkeypatch.setattr(module, "warm", failing)
    begin_warming.cache_clear()
    assert begin_warming() is begin_warming()
    begin_warming().join()
    begin_warming.cache_clear()
    assert begun == [1]


def test_the_modules_of_shapes_are_loaded_before_the_device_is_asked_for(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    with pytest.raises((RuntimeError, AssertionError), match=r"(?i)cuda"):
        module.warm()
    assert "sympy" in sys.modules
