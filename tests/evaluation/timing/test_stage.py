"""A case under the clock with players that are fakes: what is believed, and what is not."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product, repeat
from math import prod
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.evaluation.timing.faking import FakeSession

from warpsmith.base import HarnessError
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.evaluation.timing.baselines import Baseline, Baselines, baseline_path, store_baselines
from warpsmith.evaluation.timing.capture import ARENA_ADDRESSES, CapturedCalls, replay_room
from warpsmith.evaluation.timing.empty_kernel import EmptyKernelForm, EmptyKernels
from warpsmith.evaluation.timing.rules import Floor
from warpsmith.evaluation.timing.sample import EmptyKernelTimes, SamplingOptions, TimedCall
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.stage import FEWER, SEARCH, Tier, Timer
from warpsmith.evaluation.timing.subject import DrawProblem, TimingSubject, draw_on, kind_of
from warpsmith.evaluation.timing.verdict import TimedCase
from warpsmith.evaluation.timing.window import Window, WindowSource
from warpsmith.machines.cuda.player import Player
from warpsmith.machines.cuda.room import Room
from warpsmith.machines.cuda.session import RepeatableCall
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.worker.protocol import CapturedOperations
from warpsmith.machines.worker.session import Clocks
from warpsmith.records import (
    Case,
    Ceilings,
    Direction,
    Dtype,
    Failure,
    Family,
    Group,
    Language,
    Reason,
    Trial,
    Twist,
    Verdict,
)
from warpsmith.tasks.host import OpenTask, open_task
from warpsmith.tasks.inputs import FAMILIES, families_of, tensors
from warpsmith.tasks.reference.fresh import outline
from warpsmith.tasks.reference.program import Problem

pytestmark = pytest.mark.usefixtures("home")
CASE = Case(name="c", group=Group.TIMING, axes={"rows": 512, "cols": 64}, dtype=Dtype.FLOAT32)
OPENED = open_task("softmax")
NULL = EmptyKernelTimes(queued_us=3.0, idle_us=6.0, beside_us=10.0)
RATES = Ceilings(gpu="H200", measured=True, read_bytes_per_s=4e12, write_bytes_per_s=4e12, copy_bytes_per_s=4e12)
HONEST, QUEUED = Clocks(16.0, 6.0, 27.0, 400.0), Clocks(12.0, 6.0, 27.0, 400.0)
LATE, HIDING = Clocks(16.0, 6.0, 60.0, 400.0), Clocks(45.0, 6.0, 56.0, 400.0)
BUSY = Clocks(16.0, 6.0, 45.0, 400.0)  # 29 µs late; an empty kernel's wait is 10


def subject_of(opened: OpenTask, draw: DrawProblem, direction: Direction = Direction.FORWARD) -> TimingSubject:
    task = opened.describe()
    return TimingSubject(opened, task.name, task, direction, Path("x.so"), Language.TORCH, 1, draw=draw)


OUTLINE = outline(OPENED, Direction.FORWARD, Trial(case=CASE))
SUBJECT = subject_of(OPENED, lambda *_: OUTLINE)
EAGER = TorchReply(idle_us=(30.0,) * 9, queued_us=(24.0,) * 9)
ARENAS = Room(1 << 20, 1 << 21, 1)
RECORDED = RepeatableCall(CapturedOperations("", (0, 0, 0), b""), (), (), (), host_us=6.0)


@dataclass
class FakeEmptyKernels:
    """Clocks of the empty kernel that are given."""

    floor: Floor = field(default_factory=lambda: Floor(RATES, 3.0, 50 << 20))

    def times(self, _form: EmptyKernelForm) -> EmptyKernelTimes:
        return NULL


class Torch:
    """A baseline process that takes the same time for each mode."""

    def time(self, _request: TorchRequest) -> TorchReply:
        return EAGER


MACHINE = RehearsedMachine()


class Faked(TimingSession):
    """Players with these clocks from an idle device, by their windows."""

    torch = Torch()

    def __init__(self, *idle: Clocks, queued: Clocks = QUEUED, failure: Failure | None = None) -> None:
        super().__init__(SUBJECT, MACHINE, ARENAS, 1.0)
        self.fakes = [FakeSession([one], queued, failure) for one in idle]
        self.begun: list[int] = []

    def replayer(self, number: int, recorded: RepeatableCall) -> Player:
        self.begun.append(number)
        return cast(Player, self.fakes[number])


def timed(
    timing_session: Faked,
    tier: Tier,
    recorded: RepeatableCall = RECORDED,
    case: Case = CASE,
    release_memory: Callable[[], None] = lambda: None,
) -> TimedCase | Failure:
    kept = Baseline(mode="eager", idle_us=EAGER.idle_us, queued_us=EAGER.queued_us)
    store_baselines(
        baseline_path("H200", "2", OPENED.describe(), Direction.FORWARD, CASE), Baselines(modes=(kept,), flush_us=400.0)
    )
    timer = Timer(
        cast(EmptyKernels, FakeEmptyKernels()), "H200", "2", tier, modes=("eager",), release_memory=release_memory
    )
    recordings = CapturedCalls(ARENAS, {case.name: recorded})
    return timer.time_case(SUBJECT, case, lambda _trial: lambda _call, _shown: None, timing_session, recordings)


def doubts(found: TimedCase | Failure) -> set[Reason]:
    return found.reasons if isinstance(found, TimedCase) else {found.reason}


@pytest.mark.parametrize(("tier", "windows"), [("search", [0]), ("claim", [0, 2, 3, 1, 4, 5])])
@pytest.mark.parametrize("idle", [HONEST, BUSY])
def test_a_search_needs_one_process_and_a_claim_of_a_short_kernel_six(
    tier: Tier, windows: list[int], idle: Clocks
) -> None:
    """A busy host says nothing of a process that is all ours."""
    timing_session = Faked(*[idle] * 6)
    found = timed(timing_session, tier)
    assert isinstance(found, TimedCase) and found.doubts == () and timing_session.begun == windows
    assert (found.timing.time.us, found.timing.idle.us) == (12.0, 16.0)
    assert found.timing.repeated and found.timing.notes == ()
    assert timing_session.fakes[0].room == replay_room([OUTLINE], MACHINE.access.margins), (
        "as much is painted as the case needs"
    )


@pytest.mark.parametrize(("clocks", "reason"), [(LATE, Reason.CLOCKS_DISAGREE), (HIDING, Reason.HIDDEN_WORK)])
@pytest.mark.parametrize("tier", ["search", "claim"])
def test_events_that_the_judge_cannot_have_waited_for_are_not_believed(
    clocks: Clocks, reason: Reason, tier: Tier
) -> None:
    assert doubts(timed(Faked(clocks), tier)) == {reason}


def test_a_claim_needs_two_processes_that_hide_nothing() -> None:
    long, hiding = Clocks(154.0, 6.0, 165.0, 400.0), Clocks(190.0, 6.0, 201.0, 400.0)
    timing_session = Faked(long, hiding, queued=Clocks(150.0, 6.0, 165.0, 400.0))
    assert doubts(timed(timing_session, "claim")) == {Reason.HIDDEN_WORK}
    assert timing_session.begun == [0, 1], "a longer kernel has two"


def test_a_drawn_shape_has_two_processes_however_short_and_fewer_calls() -> None:
    timing_session, drawn = Faked(HONEST, HONEST), CASE.model_copy(update={"group": Group.HELDOUT})
    found = timed(timing_session, "claim", case=drawn)
    assert isinstance(found, TimedCase) and found.doubts == () and timing_session.begun == [0, 1]
    assert set(found.timing.kinds) == set(SUBJECT.kinds(CASE))
    assert {one.samples for one in found.timing.kinds.values()} <= {*range(2 * FEWER.least, 2 * FEWER.most)}


@pytest.mark.parametrize(("tier", "times"), [("search", 0), ("claim", 1)])
def test_torch_has_the_memory_that_references_took(tier: Tier, times: int) -> None:
    given = list[int]()
    timed(Faked(*[HONEST] * 6), tier, release_memory=lambda: given.append(1))
    assert len(given) == times, "before torch is asked, and torch's times are kept here"


@pytest.mark.parametrize("where", range(6))
def test_no_process_of_a_claim_covers_for_another(where: int) -> None:
    clocks = [HIDING if number == where else HONEST for number in range(6)]
    assert doubts(timed(Faked(*clocks), "claim")) == {Reason.HIDDEN_WORK}


def test_what_comes_out_wrong_when_it_is_repeated_has_no_time() -> None:
    timing_session = Faked(HONEST, failure=Failure(Reason.WRONG_VALUE, "out[0] is 0"))
    found = timed(timing_session, "search")
    assert found == Failure(Reason.UNREPEATED, "repeated without its host code, out[0] is 0")


def test_memory_that_cannot_lie_where_it_is_said_to_is_no_fault_of_ours() -> None:
    class Refused(Faked):
        def replayer(self, _number: int, _recorded: RepeatableCall) -> Player:
            raise HarnessError("The worker could not take the shared memory")

    assert doubts(timed(Refused(), "search")) == {Reason.UNREPEATED}
    with pytest.raises(HarnessError):
        ours = replace(RECORDED, recording=CapturedOperations("", ARENA_ADDRESSES, b""))
        timed(Refused(), "search", ours)


def test_a_doubt_is_a_quarantine_and_ends_the_stage() -> None:
    timer, asked = Timer(cast(EmptyKernels, FakeEmptyKernels()), "H200", "2"), list[str]()

    class Told(Timer):
        def time_case(self, _subject: TimingSubject, case: Case, *_given: object) -> Failure:
            asked.append(case.name)
            return Failure(Reason.UNREPEATED, "why")

    told = Told(timer.empty_kernels, "H200", "2")
    other, recorded = CASE.model_copy(update={"name": "d"}), CapturedCalls(ARENAS, {"c": RECORDED, "d": RECORDED})
    found = told.time_cases(Faked(), SUBJECT, [CASE, other], lambda _trial: lambda _call, _shown: None, recorded)
    assert (found.verdict, found.reason, found.detail) == (Verdict.QUARANTINE, Reason.UNREPEATED, "why")
    assert asked == ["c"]


def test_other_inputs_come_between_those_that_are_timed() -> None:
    """Host code may have chosen by the inputs that it was recorded with, and a kernel may count its calls."""
    other, places = outline(OPENED, Direction.FORWARD, Trial(case=CASE)), set[tuple[int, ...]]()
    making = WindowSource(
        Faked(HONEST),
        cast(EmptyKernels, FakeEmptyKernels()),
        repeat((OUTLINE, lambda _call, _shown: None)),
        SamplingOptions(SEARCH),
        RECORDED,
    )
    for _ in range(20):
        seen = list[Problem]()
        examine = partial(lambda seen, call, _shown: seen.append(call), seen)
        making = replace(making, calls=repeat(TimedCall(OUTLINE, examine)), others=repeat(TimedCall(other, examine)))
        assert isinstance(making.measure(0, OUTLINE), Window)
        dozen = tuple(place for place, call in enumerate(seen[:12]) if call is other)
        assert len(dozen) == 3 or len(seen) < 12
        places.add(dozen)
    assert len(places) > 10, "where, nobody knows"
    wrong = Failure(Reason.WRONG_VALUE, "off")
    found = replace(making, others=repeat(TimedCall(other, lambda _call, _shown: wrong))).measure(0, OUTLINE)
    assert found == Failure(Reason.UNREPEATED, "repeated without its host code, off")


@pytest.mark.parametrize("task", ["attention", "linear"])
def test_every_kind_of_input_takes_its_turn_in_the_timed_calls(task: str) -> None:
    """A kernel that is careful in its first calls only, and right for usual inputs only, meets others soon after."""
    opened = open_task(task)
    case = opened.describe().group(Group.SMOKE)[0]
    subject = subject_of(opened, partial(draw_on, "cpu"))
    orders, kinds = set[tuple[str, ...]](), subject.kinds(case)
    assert kinds[0] == "usual" and {
        "peaked",
        *(one for one, row in FAMILIES.items() if row.large and one in kinds),
    } == {*kinds[1:]}
    for _ in range(40):
        drawn = list(islice(subject.calls(case), 4 * len(kinds)))
        turns = [kind_of(trial) for trial, _ in drawn]
        assert all(sorted(turns[at : at + len(kinds)]) == sorted(kinds) for at in range(0, len(turns), len(kinds)))
        orders.add(tuple(turns))
        large = [kind != "usual" for kind in turns]
        sizes = [max(float(one.abs().max()) for one in tensors(call.arguments)) for _, call in drawn]
        assert [size > 7 for size in sizes] == large
    assert len(orders) > 6, "which, nobody knows"


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("task", ["attention", "linear", "max_pool"])
def test_the_other_inputs_are_of_the_same_shapes_and_never_the_same(task: str, direction: Direction) -> None:
    opened = open_task(task)
    described = opened.describe()
    case = min(described.group(Group.SMOKE), key=lambda one: prod(one.axes.values()))
    subject = subject_of(opened, partial(draw_on, "cpu"), direction)
    forward = direction is Direction.FORWARD
    first, second = (list(islice(subject.others(case), 4)) for _ in range(2))
    for kinds in (first, second):
        families, twists = [trial.family for trial, _ in kinds], [trial.twist for trial, _ in kinds]
        assert sum(twist in (Twist.NUDGED, Twist.SHUFFLED, Twist.SCALED) for twist in twists) == 1
        assert sum(not FAMILIES[family].large and family is not Family.NORMAL for family in families) >= 2
        raised = twists.count(Twist.PEAKED if forward else Twist.RAISED)
        assert raised or any(FAMILIES[family].large for family in families)
        assert forward or raised == (task == "linear")
    for (_, one), (_, other) in product(first, second):
        x, y = (tensors(call.arguments)[0] for call in (one, other))
        assert x.shape == y.shape == tensors(subject.outline(case).arguments)[0].shape
        assert not torch.equal(x, y)


@pytest.mark.parametrize("task", ["attention", "linear", "max_pool"])
def test_every_family_that_the_task_is_checked_with_comes_at_timed_shapes(task: str) -> None:
    """Before any comes again, whichever case it is for; and the values in another order."""
    opened = open_task(task)
    described = opened.describe()
    subject = subject_of(opened, lambda *_: OUTLINE)
    cases = [case for case in described.group(Group.TIMING) if case.dtype is Dtype.FLOAT32]
    expected = {one for one in families_of(described, Dtype.FLOAT32) if not FAMILIES[one].large} - {Family.NORMAL}
    streams = [subject.others(case) for case in cases]
    drawn = [next(stream)[0] for _ in range(40) for stream in streams]
    others = [one.family for one in drawn if one.family in expected]
    begun = 2 * len(cases)  # families that calls of rounds to come have
    assert set(others[: len(expected) + begun]) == expected
    assert Twist.SHUFFLED in {one.twist for one in drawn}
    counted = {trial.family for trial, _ in islice(subject.calls(cases[0]), 8)}
    assert {one for one in families_of(described, Dtype.FLOAT32) if FAMILIES[one].large} <= counted


def test_some_of_the_other_inputs_are_scaled_where_several_are_multiplied() -> None:
    for task, expected in (("attention", True), ("linear", False)):
        opened = open_task(task)
        subject = subject_of(opened, lambda *_: OUTLINE)
        for case in opened.describe().group(Group.SMOKE):
            twists = {trial.twist for trial, _ in islice(subject.others(case), 120)}
            assert (Twist.SCALED in twists) == (expected and case.dtype is Dtype.FLOAT32)


@pytest.mark.parametrize(("language", "count"), [(Language.TORCH, 0), (Language.PLAIN, 1)])
def test_a_language_says_whether_a_timed_call_passes_its_results(language: Language, count: int) -> None:
    subject = replace(SUBJECT, language=language)
    call = subject.timed_call(Trial(case=CASE), OUTLINE, lambda _call, _shown: None)
    assert len(call.given) == count and call.kind == kind_of(Trial(case=CASE))
