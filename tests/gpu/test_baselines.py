"""Baselines of one small case on a real GPU: compiled beside others without a choice kept, then measured and found."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.base import Home
from warpsmith.evaluation.baselines import BaselineScope, measure_each, measure_flush_us, prepare, wanted
from warpsmith.evaluation.timing.baseline_process import LOAD_S, BaselineHost, BaselineProcess
from warpsmith.machines.hardware.leases import Need, lease
from warpsmith.records import MODES, Direction

pytestmark = [pytest.mark.gpu, pytest.mark.leases]


def picks(home: Path) -> int:
    """How many choices of the autotuner are kept."""
    return len(list(home.rglob("*.best_config")))


def test_a_case_is_prepared_measured_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(locate=lambda: Home(tmp_path / "data", tmp_path / "cache"))
    for user in ("baselines", "baseline_process"):
        monkeypatch.setattr(f"warpsmith.evaluation.timing.{user}.Home", found)
    one = wanted(["softmax"], Direction.FORWARD)[1]
    (prepared,) = prepare([one], MODES, lambda: BaselineProcess("softmax", 2), jobs=1)
    assert dict(prepared.failed) == {}
    assert list(tmp_path.glob("cache/inductor/torch-*/fxgraph/*")), "what torch compiled was not kept"
    assert picks(tmp_path) == 0

    with lease(Need.ALONE):
        flush_us = measure_flush_us()
    place = BaselineScope.here()
    with BaselineProcess("softmax") as host:
        host.release_memory(LOAD_S)  # it has loaded before anybody has the GPU alone

        def hosts(_target: str, _until: object) -> BaselineHost:
            return host

        (row,) = measure_each([one], place, flush_us, measure_flush_us, hosts)
        (again,) = measure_each([one], place, flush_us, measure_flush_us, hosts)
    assert row.baselines is not None, row.error
    assert {baseline.mode for baseline in row.baselines.modes} == set(MODES), dict(row.baselines.failed)
    assert not row.baselines.has_drifted(flush_us)
    assert again.left and again.baselines == row.baselines
