"""The evaluator of a real GPU, rehearsed on the virtual one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import ON_A_GPU

from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.rehearsed import RehearsedMachine


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A data folder of the test's own; compiled artifacts stay in the shared cache."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture(params=[ON_A_GPU, "rehearsed"])
def machine(request: pytest.FixtureRequest) -> CudaMachine:
    """A real GPU where there is one, and a rehearsed one everywhere."""
    return RehearsedMachine() if request.param == "rehearsed" else CudaMachine.first()
