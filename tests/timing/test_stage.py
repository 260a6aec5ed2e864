"""A case under the clock with sessions that are fakes: what is doubted has further chances in other processes."""

from dataclasses import dataclass, field, replace
from itertools import repeat
from math import prod
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.timing.faking import FakeSession

from warpsmith.records import Case, Ceilings, Direction, Dtype, Group, Reason, Trial
from warpsmith.sandbox.cuda_session import CudaSession, Recorded
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.player import Player
from warpsmith.sandbox.protocol import Recording
from warpsmith.sandbox.session import Clocks, Shown
from warpsmith.tasks.find import open_task
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.program import Problem
from warpsmith.tasks.values import tensors
from warpsmith.timing.baselines import Baseline, Baselines, keep, store
from warpsmith.timing.null import Form
from warpsmith.timing.rules import Floor
from warpsmith.timing.sample import Manner, Null
from warpsmith.timing.sitting import Sitting, Subject, Zeros
from warpsmith.timing.stage import RULES, Tier, Timer
from warpsmith.timing.verdict import Judged
from warpsmith.timing.window import Window, Windows

CASE = Case(name="c", group=Group.TIMING, axes={"rows": 512, "cols": 64}, dtype=Dtype.FLOAT32)
OPENED = open_task("softmax")
NULL = Null(queued_us=3.0, idle_us=6.0, beside_us=10.0)
RATES = Ceilings(gpu="H200", measured=True, read_bytes_per_s=4e12, write_bytes_per_s=4e12, copy_bytes_per_s=4e12)
HONEST, QUEUED = Clocks(16.0, 6.0, 27.0, 400.0), Clocks(12.0, 6.0, 27.0, 400.0)
LATE, HIDING = Clocks(16.0, 6.0, 60.0, 400.0), Clocks(40.0, 6.0, 51.0, 400.0)


@dataclass
class Zero:
    """Of the zeros, clocks that change only when they are measured anew; and which forms were."""

    sitting: "Faked"
    later: Null = NULL
    anew: list[Form] = field(default_factory=list)
    floor: Floor = field(default_factory=lambda: Floor(RATES, 3.0, 50 << 20))

    def null(self, form: Form) -> Null:
        return self.later if form in self.anew else NULL

    def again(self, form: Form) -> None:
        assert all(fake.ended for fake in self.sitting.fakes[: self.sitting.begun]), "the candidate was running"
        self.anew.append(form)


class Faked(Sitting):
    """Workers with these clocks from an idle device, in the order in which they are begun."""

    plays: FakeSession  # who repeats a recording

    def __init__(self, *idle: Clocks, together: bool = False) -> None:
        task = OPENED.describe()
        subject = Subject(OPENED, "softmax", task, Direction.FORWARD, Path("x.so"), False, 1, together)
        super().__init__(subject, Path(), {"c": outline(OPENED, Direction.FORWARD, Trial(case=CASE))}, 1.0)
        self.subject, self.fakes, self.begun = subject, [FakeSession([one], QUEUED) for one in idle], 0

    def _session(self) -> CudaSession:
        self.begun += 1
        return cast(CudaSession, self.fakes[self.begun - 1])

    def player(self, number: int, recorded: Recorded) -> Player:
        return cast(Player, self.plays)


def timed(
    sitting: Faked,
    tier: Tier,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: Null = NULL,
    recorded: Recorded | str = "nothing was recorded",
) -> tuple[Judged, Zero]:
    monkeypatch.setenv("WARPSMITH_HOME", str(home))
    monkeypatch.setattr("warpsmith.timing.window.PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(Subject, "calls", lambda self, _case: repeat(sitting.outlines["c"]))
    monkeypatch.setattr(Subject, "others", lambda self, _case: [])
    monkeypatch.setattr("warpsmith.timing.stage.measure_again", lambda _torch, _request, chosen: chosen)
    monkeypatch.setattr(Faked, "torch", None)
    kept = Baseline(mode="eager", idle_us=(30.0,) * 9, queued_us=(24.0,) * 9)
    path = store("H200", "2", OPENED.describe(), Direction.FORWARD, CASE)
    keep(path, Baselines(modes=(kept,), flush_us=400.0))
    zero = Zero(sitting, later)
    timer = Timer(cast(Zeros, zero), "H200", "2", tier, modes=("eager",))
    outcome = timer.time_case(sitting.subject, CASE, lambda _call, _shown: None, sitting, recorded)
    assert isinstance(outcome, Judged)
    return outcome, zero


def test_an_honest_search_needs_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sitting = Faked(HONEST, HONEST)
    found, zero = timed(sitting, "search", tmp_path, monkeypatch)
    assert (found.doubts, sitting.begun, zero.anew) == ((), 1, [])
    assert found.timing.time.us == 12.0


@pytest.mark.parametrize("doubtful", [LATE, HIDING])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_doubt_has_further_chances_of_which_the_last_alone_counts(
    doubtful: Clocks, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting = Faked(*[doubtful] * times, HONEST)
    found, _ = timed(sitting, "search", tmp_path, monkeypatch)
    assert (found.doubts, sitting.begun) == ((), times + 1)
    assert (found.timing.idle.low_us, found.timing.idle.high_us) == (16.0, 16.0)
    assert any(f"timed again in {times} fresh process" in note for note in found.timing.notes)
    assert sitting.worker(0) is cast(CudaSession, sitting.fakes[times]), "the next case begins where the clocks agreed"


def test_a_candidate_that_takes_long_has_no_further_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.timing.window.CHANCES_S", 0.0)
    sitting = Faked(LATE, HONEST)
    found, _ = timed(sitting, "search", tmp_path, monkeypatch)
    assert [doubt.reason for doubt in found.doubts] == [Reason.CLOCKS_DISAGREE]
    assert sitting.begun == 1


def test_a_zero_that_was_wrong_needs_no_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Null(queued_us=3.0, idle_us=31.0, beside_us=10.0)  # a device that needs 28 µs to start
    sitting = Faked(HIDING, HONEST)
    found, zero = timed(sitting, "search", tmp_path, monkeypatch, slow)
    assert (found.doubts, sitting.begun, len(zero.anew)) == ((), 1, 1)
    assert found.timing.idle.us == 40.0


def test_nothing_of_a_candidate_runs_beside_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.timing.sitting.host_for", lambda _target, _until: "torch")
    with Faked(HONEST, HONEST, HONEST) as sitting:
        sitting.worker(0), sitting.worker(1)
        assert sitting.torch == "torch"
        assert all(fake.ended for fake in sitting.fakes[:2])
        assert sitting.worker(0) is cast(CudaSession, sitting.fakes[2])


def test_all_processes_end_with_the_sitting() -> None:
    with Faked(HONEST, HONEST) as sitting:
        sitting.worker(0), sitting.worker(1)
        assert not any(fake.ended for fake in sitting.fakes)
    assert all(fake.ended for fake in sitting.fakes)


@pytest.mark.parametrize(("clocks", "reason"), [(LATE, Reason.CLOCKS_DISAGREE), (HIDING, Reason.HIDDEN_WORK)])
@pytest.mark.parametrize("tier", ["search", "claim"])
def test_whoever_is_doubted_in_every_process_is_not_believed(
    clocks: Clocks, reason: Reason, tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = timed(Faked(*[clocks] * 4), tier, tmp_path, monkeypatch)
    assert [doubt.reason for doubt in found.doubts] == [reason]


@pytest.mark.parametrize(("third", "doubts"), [(HONEST, []), (HIDING, [Reason.HIDDEN_WORK])])
def test_a_claim_needs_two_processes_that_hide_nothing(
    third: Clocks, doubts: list[Reason], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting = Faked(HONEST, HIDING, third, third, third)
    found, _ = timed(sitting, "claim", tmp_path, monkeypatch)
    assert ([doubt.reason for doubt in found.doubts], sitting.begun) == (doubts, 5 if doubts else 3)


def test_the_zero_of_a_doubt_is_like_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, zero = timed(Faked(HIDING, HONEST, together=True), "search", tmp_path, monkeypatch)
    assert zero.anew == [Form(1, 1, moved_bytes=2 * 512 * 64 * 4, together=True)]


OUTLINE, MANNER = outline(OPENED, Direction.FORWARD, Trial(case=CASE)), Manner(RULES["search"])
RECORDED = Recorded(Recording("", (0, 0, 0), b""), (), (), (), host_us=6.0)
BUSY = Clocks(16.0, 6.0, 45.0, 400.0)  # 29 µs late; the null candidate's way is 10
LOST = Clocks(16.0, 6.0, 60.0, 400.0)


@pytest.mark.parametrize("idle", [HONEST, HIDING, BUSY])
def test_what_is_repeated_without_its_host_code_hides_nothing(
    idle: Clocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a busy host nor a queued time below the idle one says anything of a process that is all ours."""
    sitting = Faked()
    sitting.plays = FakeSession([idle], QUEUED)
    found, zero = timed(sitting, "claim", tmp_path, monkeypatch, recorded=RECORDED)
    assert (found.doubts, sitting.begun, zero.anew) == ((), 0, [])
    assert (found.timing.time.us, found.timing.idle.us) == (12.0, idle.event_us)
    assert found.timing.repeated and found.timing.notes == ()


def test_but_events_that_the_judge_cannot_have_waited_for_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting = Faked()
    sitting.plays = FakeSession([LOST], QUEUED)
    found, _ = timed(sitting, "search", tmp_path, monkeypatch, recorded=RECORDED)
    assert found.reasons == {Reason.CLOCKS_DISAGREE}


def test_what_cannot_be_repeated_is_timed_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sitting = Faked(HONEST)
    sitting.plays = FakeSession([HONEST], QUEUED, trouble=Trouble(Reason.WRONG_VALUE, "out[0] is 0"))
    found, _ = timed(sitting, "search", tmp_path, monkeypatch, recorded=RECORDED)
    assert (found.doubts, sitting.begun) == ((), 1)
    assert any("could not be repeated without it: repeated, out[0] is 0" in note for note in found.timing.notes)
    assert not found.timing.repeated


def test_a_wrong_result_while_it_is_recorded_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Trouble(Reason.WRONG_VALUE, "off")
    sitting = Faked()
    timer = Timer(cast(Zeros, Zero(sitting)), "H200", "2", "search", modes=("eager",))
    assert timer.time_case(sitting.subject, CASE, lambda _call, _shown: None, sitting, wrong) is wrong


def test_other_inputs_are_tried_before_a_repeated_call_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host code may have chosen by the inputs that it was recorded with."""
    sitting, seen = Faked(HONEST), list[Problem]()
    sitting.plays = FakeSession([HONEST], QUEUED)
    other = sitting.outlines["c"]
    making = Windows(
        sitting,
        cast(Zeros, Zero(sitting)),
        repeat(OUTLINE),
        lambda call, _shown: seen.append(call),
        MANNER,
        RECORDED,
        [other],
    )
    found = making.window(0, OUTLINE)
    assert isinstance(found, Window) and found.repeated
    assert seen[0] is other and all(call is OUTLINE for call in seen[1:])

    def wrong(call: Problem, _shown: Shown) -> Trouble | None:
        return Trouble(Reason.WRONG_VALUE, "off") if call is other else None

    found = replace(making, examine=wrong).window(0, OUTLINE)
    assert isinstance(found, Window) and not found.repeated and found.why == "repeated, off"


@pytest.mark.parametrize("task", ["linear", "max_pool"])
def test_the_other_inputs_are_of_the_same_shapes_and_never_the_same(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = problems
    monkeypatch.setattr("warpsmith.timing.sitting.problems", lambda *given: made(*given[:-1], "cpu"))
    opened = open_task(task)
    described = opened.describe()
    case = min(described.group(Group.SMOKE), key=lambda one: prod(one.axes.values()))
    subject = Subject(opened, task, described, Direction.FORWARD, Path("x.so"), False, 1)
    first, second = subject.others(case), subject.others(case)
    assert len(first) == 2
    for one, other in zip(first, second, strict=True):
        x, y = tensors(one.arguments)[0], tensors(other.arguments)[0]
        assert x.shape == y.shape == tensors(subject.outline(case).arguments)[0].shape
        assert not torch.equal(x, y)
