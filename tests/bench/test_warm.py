"""What is done beside the compiler: in this order, once, and what fails there is told by the stage that needs it."""

import subprocess
import sys

import pytest

from warpsmith.bench import warm as module
from warpsmith.bench.warm import warming

ORDER = """
import sys
from warpsmith.bench import warm
assert "sympy" not in sys.modules
warm.open_device = lambda: print("sympy" in sys.modules)
warm.warm()
"""


def test_it_is_over_before_what_it_is_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def failing() -> None:
        begun.append(1)
        raise RuntimeError("no GPU")

    monkeypatch.setattr(module, "warm", failing)
    with warming():
        pass
    assert begun == [1]


def test_the_modules_of_shapes_are_loaded_before_the_device_is_opened(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", ORDER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
