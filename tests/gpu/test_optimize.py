"""A search on a real GPU: its times are measured, and its winner is claimed against torch."""

import pytest

import warpsmith
from warpsmith.archive import Archive, RunState
from warpsmith.records import MeasuredScore, TimingFacts

pytestmark = [pytest.mark.gpu, pytest.mark.leases]


def test_the_tuner_finds_a_point_that_is_no_slower_than_the_seed(archive_url: str) -> None:
    done = warpsmith.optimize("swiglu", device="cuda", generations=1, proposals=4)
    assert done.state is RunState.DONE
    with Archive.open(archive_url) as archive:
        best, entries = archive.best(done.name), list(archive.records(done.name))
        assert best is not None and isinstance(best.score, MeasuredScore)
        seed = next(entry for entry in entries if entry.tags.operator == "seed")
        assert seed.score is not None and best.score.value >= 0.97 * seed.score.value
        final = next(entry.record for entry in entries if entry.tags.proposal == "final")
        timing = final.result("timing")
        assert timing is not None and isinstance(timing.facts, TimingFacts) and timing.facts.tier == "claim"
