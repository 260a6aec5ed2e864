"""What is said of a case from its samples and baselines, and when it is doubted."""

import pytest
import torch

from warpsmith.records import Case, Claim, Direction, Dtype, Group, Reason
from warpsmith.sandbox.session import Clocks
from warpsmith.tasks.program import Problem
from warpsmith.tasks.suite import suite_program
from warpsmith.timing import Ceilings, LaunchCost
from warpsmith.timing.baselines import Baseline, best, joined, keep, load, store
from warpsmith.timing.null import Null
from warpsmith.timing.sample import Samples
from warpsmith.timing.verdict import Bench, Judged, floor_of, judged

CASE = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "cols": 8192}, dtype=Dtype.FLOAT32)
NULL = Null(idle_us=10.0, queued_us=3.0, wall_us=50.0, cost=LaunchCost(7.0, 2.0))
BENCH = Bench(NULL, Ceilings(read_bytes_us=4.3e6, flops_us=None, null_us=3.0, l2_bytes=60 << 20))


def samples(idle_us: float, queued_us: float, wall_us: float) -> Samples:
    def some(event_us: float) -> list[Clocks]:
        return [Clocks(event_us * (1 + 0.001 * (i % 5)), 5.0, wall_us, 400.0) for i in range(25)]

    return Samples(some(idle_us), some(queued_us))


def baseline(mode: str, us: float) -> Baseline:
    return Baseline(mode, (us + 7,) * 25, tuple(us * (1 + 0.001 * (i % 5)) for i in range(25)))


def case(idle_us: float, queued_us: float, wall_us: float, floor_us: float = 50.0) -> Judged:
    both = (baseline("eager", 300.0), baseline("compile", 200.0))
    return judged(CASE, samples(idle_us, queued_us, wall_us), both, BENCH, floor_us, launches=1)


def test_an_honest_case_is_held_against_the_best_baseline() -> None:
    found = case(idle_us=108, queued_us=100, wall_us=148)
    assert found.doubts == ()
    assert found.timing.best == "compile"
    assert found.timing.speedup is not None
    assert found.timing.speedup.value == pytest.approx(2.0)
    assert found.timing.claim is Claim.FASTER
    assert found.timing.roofline == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("idle_us", "queued_us", "wall_us", "floor_us", "reason"),
    [
        (108, 100, 300, 50, Reason.CLOCKS_DISAGREE),
        (160, 100, 200, 50, Reason.HIDDEN_WORK),
        (108, 100, 148, 120, Reason.BELOW_FLOOR),
        (18, 10, 58, 5, Reason.TOO_GOOD),
    ],
)
def test_doubts(idle_us: float, queued_us: float, wall_us: float, floor_us: float, reason: Reason) -> None:
    assert reason in [doubt.reason for doubt in case(idle_us, queued_us, wall_us, floor_us).doubts]


def test_short_times_say_what_cannot_be_settled() -> None:
    assert "cannot confirm" in case(20, 12, 60, 5).timing.notes[0]
    assert case(108, 100, 148).timing.notes == ()


def test_a_floor_is_the_bytes_that_must_be_read() -> None:
    task = suite_program("softmax").task
    x = torch.empty(4096, 8192, device="meta")
    floor = floor_of(task, Direction.FORWARD, CASE, Problem((x,), (x,), (x,)), BENCH.ceilings)
    read = x.numel() * 4
    spilled = read - (60 << 20)
    assert floor == pytest.approx((read + spilled) / 1.05 / 4.3e6, rel=1e-3)


def test_baselines_are_kept_for_what_they_depend_on(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    task = suite_program("softmax").task
    path = store("H200", "2.11", task, Direction.FORWARD, CASE)
    assert load(path) == ()
    keep(path, [baseline("eager", 3.0)])
    assert load(path) == (baseline("eager", 3.0),)
    assert store("H100", "2.11", task, Direction.FORWARD, CASE) != path
    assert store("H200", "2.12", task, Direction.FORWARD, CASE) != path


def test_two_windows_join_the_modes_that_ran_in_both() -> None:
    found = joined([baseline("eager", 3.0), baseline("compile", 2.0)], [baseline("eager", 5.0)])
    assert [b.mode for b in found] == ["eager"]
    assert len(found[0].queued_us) == 50
    assert best([baseline("eager", 3.0), baseline("compile", 2.0)]).mode == "compile"
