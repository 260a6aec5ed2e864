"""Commands of a test keep their records and files in folders of the test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith.records import Record


@pytest.fixture(autouse=True)
def own_folders(archive_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive and a data folder that no other test uses."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def evaluate_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Record]], None]:
    """Let the commands of a test take their records from a function, in place of the evaluator."""

    def replace(judge: Callable[..., Any]) -> None:
        monkeypatch.setattr("warpsmith.evaluation.grade", judge)
        monkeypatch.setattr("warpsmith.evaluation.processes.judges.grade", judge)

    return replace
