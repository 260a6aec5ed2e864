"""A whole search on the evaluator of a real GPU, rehearsed: its threads, its processes and its final evaluation."""

from pathlib import Path

import pytest

import warpsmith
from warpsmith.archive import Archive, RunState
from warpsmith.records import MeasuredScore


@pytest.mark.slow
def test_a_tuner_searches_on_two_rehearsed_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'archive.sqlite'}"
    monkeypatch.setenv("WARPSMITH_ARCHIVE", url)
    monkeypatch.setenv("WARPSMITH_REHEARSED_GPUS", "2")
    done = warpsmith.optimize("softmax", device="rehearsed", generations=1, proposals=2, evaluate=2)
    assert done.state is RunState.DONE
    with Archive.open(url) as archive:
        entries = list(archive.records(done.name))
        best = archive.best(done.name)
    assert best is not None and isinstance(best.score, MeasuredScore)
    assert {entry.record.environment.hardware for entry in entries} == {"rehearsed:rehearsed H200"}
    assert "final" in {entry.tags.proposal for entry in entries}
