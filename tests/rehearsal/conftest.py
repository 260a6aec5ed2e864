"""The judge of a real GPU, rehearsed on the virtual one."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage import ON_A_GPU, rehearsed


@pytest.fixture
def rehearsal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """There is a GPU, and it is the virtual one."""
    with rehearsed(monkeypatch, tmp_path / "data"):
        yield


@pytest.fixture(params=[ON_A_GPU, "rehearsed"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A real GPU where there is one, and a rehearsal everywhere."""
    with rehearsed(monkeypatch, tmp_path / "data") if request.param == "rehearsed" else nullcontext():
        yield
