"""Elites, the best and lineage: like is compared with like, and what was said last of a kernel counts."""

from collections.abc import Callable

import pytest

from warpsmith.archive import Archive
from warpsmith.records import MeasuredScore, ModelledScore, Reason, Record, StageResult, Verdict

Make = Callable[..., Record]


def sources(entries: object) -> list[str]:
    return [entry.record.candidate.source for entry in entries]  # type: ignore[attr-defined]


def test_elites_are_the_fastest_right_ones(archive: Archive, make: Make) -> None:
    for source, us in (("slow", 20.0), ("fast", 5.0), ("middle", 10.0)):
        archive.add("first", make(source, us))
    archive.add("first", make("wrong", fails=Reason.WRONG_VALUE))
    archive.add("first", make("not timed", us=None))
    assert sources(archive.elites("first")) == ["fast", "middle", "slow"]
    assert sources(archive.elites("first", limit=1)) == ["fast"]
    best = archive.best("first")
    assert best is not None and isinstance(best.score, ModelledScore) and best.score.us == pytest.approx(5.0)


def test_a_tie_goes_to_the_first(archive: Archive, make: Make) -> None:
    for source in ("one", "two"):
        archive.add("first", make(source, 5.0))
    assert sources(archive.elites("first")) == ["one", "two"]


def test_nothing_right_is_no_best(archive: Archive, make: Make) -> None:
    assert archive.best("first") is None and archive.elites("first") == ()
    archive.add("first", make("wrong", fails=Reason.WRONG_VALUE))
    assert archive.best("first") is None


def test_measured_and_modelled_are_never_in_one_ranking(archive: Archive, make: Make) -> None:
    archive.add("first", make("modelled", 0.001))
    archive.add("first", make("measured", 50.0, kind="measured"))
    assert sources(archive.elites("first")) == ["measured"]
    best = archive.best("first")
    assert best is not None and isinstance(best.score, MeasuredScore)
    assert (best.score.value, best.score.low, best.score.high) == pytest.approx((2.0, 1.96, 2.04))
    assert [(one.kind, one.count) for one in archive.rankings("first")] == [("measured", 1), ("modelled", 1)]
    modelled = archive.rankings("first")[1].basis
    assert sources(archive.elites("first", basis=modelled)) == ["modelled"]


def test_times_of_fewer_cases_are_another_ranking(archive: Archive, make: Make) -> None:
    archive.add("first", make("one case", 1.0, cases=1))
    archive.add("first", make("one case too", 1.0, cases=1))
    archive.add("first", make("three cases", 9.0, cases=3))
    assert sources(archive.elites("first")) == ["three cases"]


def test_a_kernel_counts_by_its_last_evaluation(archive: Archive, make: Make) -> None:
    archive.add("first", make("lucky", 1.0, seed=1))
    archive.add("first", make("steady", 5.0))
    archive.add("first", make("lucky", 9.0, seed=2))
    assert sources(archive.elites("first")) == ["steady", "lucky"]


def test_a_kernel_that_failed_since_is_no_elite_until_it_passes_again(archive: Archive, make: Make) -> None:
    archive.add("first", make("flaky", 1.0, seed=1))
    archive.add("first", make("steady", 5.0))
    archive.add("first", make("flaky", fails=Reason.WRONG_VALUE, seed=2))
    assert sources(archive.elites("first")) == ["steady"]
    archive.add("first", make("flaky", 1.0, seed=3))
    assert sources(archive.elites("first")) == ["flaky", "steady"]


def test_a_fault_of_ours_says_nothing_of_a_kernel(archive: Archive, make: Make) -> None:
    archive.add("first", make("good", 1.0))
    ours = StageResult(stage="check", verdict=Verdict.FAULT, reason=Reason.HARNESS, detail="it died")
    archive.add("first", make("good", seed=2).model_copy(update={"results": (ours,)}))
    assert sources(archive.elites("first")) == ["good"]


@pytest.mark.parametrize(("reason", "left"), [(Reason.DISTURBED, ["good"]), (Reason.HIDDEN_WORK, [])])
def test_a_disturbed_gpu_takes_no_kernel_off_the_elites(
    reason: Reason, left: list[str], archive: Archive, make: Make
) -> None:
    archive.add("first", make("good", 1.0))
    odd = StageResult(stage="timing", verdict=Verdict.QUARANTINE, reason=reason, detail="80% of 40 windows")
    again = make("good", seed=2)
    archive.add("first", again.model_copy(update={"results": (*again.results[:-1], odd)}))
    assert sources(archive.elites("first")) == left


def test_a_quarantine_is_no_win(archive: Archive, make: Make) -> None:
    odd = make("odd", 0.1, kind="measured")
    last = odd.results[-1].model_copy(update={"verdict": Verdict.QUARANTINE, "reason": Reason.TOO_GOOD})
    archive.add("first", odd.model_copy(update={"results": (*odd.results[:-1], last)}))
    assert archive.best("first") is None


def test_elites_of_a_task_are_those_of_all_runs(archive: Archive, make: Make) -> None:
    archive.add("first", make("a", 4.0))
    archive.add(None, make("b", 3.0))
    archive.add(None, make("other", 1.0, task="rope"))
    assert sources(archive.elites(task="softmax")) == ["b", "a"]


def test_lineage_is_oldest_first_and_ends_with_the_candidate(archive: Archive, make: Make) -> None:
    seed, other = make("seed"), make("other")
    left = make("left", parents=(seed.candidate.id,))
    child = make("child", parents=(left.candidate.id, other.candidate.id))
    for record in (seed, other, left, make("stranger"), child):
        archive.add("first", record)
    assert sources(archive.lineage(child.candidate.id, "first")) == ["seed", "other", "left", "child"]
    assert archive.lineage("nobody") == ()


def test_lineage_of_a_kernel_that_came_back_ends(archive: Archive, make: Make) -> None:
    one = make("one")
    two = make("two", parents=(one.candidate.id,))
    again = make("one", parents=(two.candidate.id,), seed=1)
    for record in (one, two, again):
        archive.add("first", record)
    assert sources(archive.lineage(two.candidate.id)) == ["one", "two"]
    assert sources(archive.lineage(one.candidate.id)) == ["one"]


def test_the_index_of_scores_says_what_the_record_says(archive: Archive, make: Make) -> None:
    from warpsmith.records import score

    for place, kind in enumerate(("modelled", "measured")):
        archive.add("first", make(f"k{place}", 3.0, kind=kind))
    for entry in archive.records("first"):
        assert entry.score == score(entry.record)
