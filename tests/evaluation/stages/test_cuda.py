"""What the stages for a real GPU decide without one: which cases are timed, how many launches are believed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest
import torch
from torch import Tensor

from warpsmith.base import HarnessError, MachineError
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.stages.cuda import (
    BegunReplays,
    Capture,
    CaptureAttempt,
    _after,
    _capture,
    _examine,
    _subject,
    _timed_cases,
    believed_launches,
    check_on_gpu,
    take_capture,
    time_replays,
)
from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, LaunchCount, Products, Stage, StageOutcome
from warpsmith.evaluation.stages.virtual import plan_calls, preview_virtually
from warpsmith.evaluation.timing.baselines import Baseline, Baselines
from warpsmith.evaluation.timing.capture import CapturedCalls
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda.machine import LIMITS, CudaMachine, GivenTimes
from warpsmith.machines.cuda.player import Player
from warpsmith.machines.cuda.room import Room
from warpsmith.machines.cuda.session import CudaSession, RepeatableCall
from warpsmith.machines.hardware import Gpu
from warpsmith.machines.machine import CheckLimits
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.virtual.machine import VirtualMachine
from warpsmith.machines.worker.fake_session import FakeSession
from warpsmith.machines.worker.protocol import CapturedOperations
from warpsmith.machines.worker.session import Clocks, Shown
from warpsmith.records import (
    MODES,
    Candidate,
    Case,
    CompileFacts,
    Direction,
    Environment,
    Failure,
    Group,
    Heldout,
    KernelResources,
    Reason,
    Record,
    StageResult,
    Trial,
    Verdict,
)
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.heldout import NEAR, NEAR_CASES
from warpsmith.tasks.inputs.values import Values

OPENED = open_task("softmax")
TASK = OPENED.describe()
DRAWN = Heldout.model_fields["count"].default  # held-out shapes, one of each kind of size
CANDIDATE = Candidate(task="softmax", direction=Direction.FORWARD, source="x")
CASE = TASK.group(Group.SMOKE)[0]
RECORDED = RepeatableCall(CapturedOperations("", (1, 2, 3), b""), (), (), ())
RECORDINGS = CapturedCalls(Room(1, 2, 1), {"c": RECORDED})


ARTIFACT = Artifact(Path("x.so"))
GPU = Gpu("H200", "580", 143771, "9.0")


@dataclass(frozen=True)
class HostMachine(RehearsedMachine):
    """A GPU whose times are measured and whose sessions are given."""

    gpu: Gpu = GPU
    limits: CheckLimits = LIMITS
    kind: ClassVar[str] = CudaMachine.kind
    given: ClassVar[GivenTimes | None] = None
    fake: "Repeatable | None" = None
    has_room: bool = True

    def session(self, _artifact: Path, _direction: Direction, room: object, *_rest: object) -> CudaSession:
        assert self.fake is not None
        return cast(CudaSession, self.fake.on(cast(Room, room)))

    def has_room_for(self, arenas_bytes: int) -> bool:
        return self.has_room


def evaluation(machine: CudaMachine | None = None, record: Record | None = None, **chosen: Any) -> Evaluation:
    config = EvaluationConfig(device="cuda", **chosen)
    return Evaluation("softmax", OPENED, TASK, CANDIDATE, config, machine or HostMachine(), 3, record or compiled(1))


def compiled(kernels: int, libraries: tuple[str, ...] = (), arch: str = "sm_90a") -> Record:
    record = Record(candidate=CANDIDATE, task_version="1", environment=Environment(device="d", hardware="h"))
    resources = tuple(KernelResources(name=str(n), registers=8) for n in range(kernels))
    facts = CompileFacts(arch=arch, kernels=resources, libraries=libraries)
    return record.with_result(StageResult(stage="compile", verdict=Verdict.PASS, facts=facts))


def captured(one: Evaluation) -> CaptureAttempt:
    result = StageResult(stage="record", verdict=Verdict.PASS)
    return CaptureAttempt(result, Capture(_subject(one, ARTIFACT, 3), RECORDINGS))


def begun_by(outcome: StageOutcome) -> BegunReplays | None:
    return next((one for one in outcome.products if isinstance(one, BegunReplays)), None)


@pytest.mark.parametrize("group", [Group.TIMING, Group.DEV, Group.SMOKE])
def test_the_chosen_group_is_timed_and_by_default_the_timing_cases(group: Group) -> None:
    assert _timed_cases(evaluation(cases=(group,))) == list(TASK.group(group))
    assert _timed_cases(evaluation()) == list(TASK.group(Group.TIMING))


def test_held_out_cases_are_drawn_before_they_are_timed() -> None:
    found = _timed_cases(evaluation(cases=(Group.HELDOUT,)))
    assert len(found) == DRAWN + NEAR_CASES and all(case.group is Group.HELDOUT for case in found)


def test_a_claim_times_held_out_cases_too() -> None:
    found = _timed_cases(evaluation(tier="claim"))
    assert found[: len(TASK.group(Group.TIMING))] == list(TASK.group(Group.TIMING))
    drawn = found[len(TASK.group(Group.TIMING)) :]
    assert [case.group for case in drawn] == [Group.HELDOUT] * (DRAWN + NEAR_CASES)
    assert [case.name.startswith(NEAR) for case in drawn] == [False] * DRAWN + [True] * NEAR_CASES


@pytest.mark.parametrize(("counted", "believed"), [(6, 6), (100, 16)])
def test_launches_are_those_that_the_virtual_gpu_counted_within_a_bound(counted: int, believed: int) -> None:
    assert believed_launches(evaluation(), LaunchCount(counted)) == believed


@pytest.mark.parametrize(("kernels", "believed"), [(1, 1), (3, 3), (50, 8)])
def test_without_a_virtual_run_the_artifact_s_kernels_are_counted(kernels: int, believed: int) -> None:
    assert believed_launches(evaluation(record=compiled(kernels)), None) == believed


class Timed:
    """A timer that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[TimingSubject, Sequence[Case], CapturedCalls]] = []

    def time_cases(
        self,
        session: "Sat",
        subject: TimingSubject,
        cases: Sequence[Case],
        _examine: object,
        recorded: CapturedCalls,
    ) -> StageResult:
        assert not session.is_closed
        self.asked.append((subject, cases, recorded))
        self.sat = session
        return StageResult(stage="timing", verdict=Verdict.PASS)


class Sat(TimingSession):
    """Which players were begun, and whether it is over."""

    def __init__(
        self,
        subject: TimingSubject,
        machine: CudaMachine,
        arenas: Room,
        call_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(subject, machine, arenas, call_s, clock)
        self.begun: list[int] = []
        self.is_closed = False

    def replayer(self, number: int, recorded: RepeatableCall) -> Player:
        self.begun.append(number)
        return cast(Player, None)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("begun", "waited_s", "same"), [(False, 0.0, False), (True, 0.0, True), (True, 999.0, False)])
def test_captured_calls_are_timed_in_the_processes_that_were_started_unless_those_are_old(
    begun: bool, waited_s: float, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, one = Timed(), evaluation()
    capture = captured(one).capture
    assert capture is not None
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.timer_for", lambda *_given: timer)
    monkeypatch.setattr("warpsmith.evaluation.timing.TimingSession", Sat)
    now_s = [0.0]
    early = Sat(capture.subject, HostMachine(), RECORDINGS.arenas, 1.0, lambda: now_s[0]) if begun else None
    now_s[0] = waited_s
    outcome = time_replays(one, capture, BegunReplays(early) if early else None, None)
    assert outcome.result.verdict is Verdict.PASS
    assert timer.asked == [(capture.subject, list(TASK.group(Group.TIMING)), RECORDINGS)]
    assert (timer.sat is early) is same and timer.sat.is_closed
    assert early is None or early.is_closed


def test_a_stage_that_stands_before_one_whose_product_it_needs_is_a_fault_of_ours() -> None:
    with pytest.raises(HarnessError, match="needs CaptureAttempt"):
        Products().arguments(Stage("record", take_capture, needs=(CaptureAttempt,)))


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("warpsmith.evaluation.timing.TimingSession", Sat)
    monkeypatch.setattr("warpsmith.evaluation.timing.preload_torch", lambda *_given: None)


class Repeatable(FakeSession):
    """A session on which a call can be recorded; which rooms it was told to use."""

    rooms: list[Room]
    arenas = Room(1, 2, 1)
    gpu = RehearsedMachine().access

    def on(self, arenas: Room) -> "Repeatable":
        """Begun on these."""
        self.arenas, self.rooms = arenas, []
        return self

    def use(self, room: Room) -> None:
        assert room.slot_bytes * room.slots <= self.arenas.slot_bytes * self.arenas.slots
        assert room.results_bytes <= self.arenas.results_bytes and room.snapshot_bytes <= self.arenas.snapshot_bytes
        self.rooms.append(room)

    def record(self, arguments: Values, given: Sequence[Tensor] = ()) -> tuple[Shown, RepeatableCall]:
        return self.call(arguments, given), RECORDED


def softmax(wrong_from: int) -> Callable[[Values], Shown]:
    """The task computed here; from a call on, wrongly."""
    calls = count(1)

    def answer(arguments: Values) -> Shown:
        x = arguments[0]
        assert isinstance(x, Tensor)
        off = 0.5 if next(calls) >= wrong_from else 0.0
        return Shown(None, (torch.softmax(x, -1) + off,), clocks=Clocks(10.0, 5.0, 20.0, 400.0))

    return answer


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(
    ("until", "wrong_from", "said"),
    [
        ("", 10**9, [Verdict.PASS, Verdict.PASS]),
        ("record", 10**9, [Verdict.PASS, Verdict.PASS]),
        ("check", 10**9, [Verdict.PASS]),
        ("", 3, [Verdict.FAIL]),
        ("", len(plan_calls(evaluation(cases=(Group.SMOKE,)), HostMachine())) + 2, [Verdict.PASS, Verdict.FAIL]),
    ],
)
def test_what_was_checked_is_recorded_in_the_same_process(until: str, wrong_from: int, said: list[Verdict]) -> None:
    session = Repeatable(softmax(wrong_from))
    one = evaluation(HostMachine(fake=session), cases=(Group.SMOKE,), until=until)
    checked = check_on_gpu(one, ARTIFACT, None)
    attempt = next((product for product in checked.products if isinstance(product, CaptureAttempt)), None)
    outcomes = [checked, *([take_capture(one, attempt)] if attempt else [])]
    assert [outcome.result.verdict for outcome in outcomes] == said, outcomes
    recorded = said == [Verdict.PASS, Verdict.PASS]
    found = attempt.capture if attempt else None
    assert (set(found.recordings.calls) if found else set()) == (
        {case.name for case in TASK.group(Group.SMOKE)} if recorded else set()
    )
    rooms = {True: len(TASK.group(Group.SMOKE)), False: len(said) - 1}  # one a case, up to the first that is wrong
    assert [room.slots for room in session.rooms] == [4] + [1] * rooms[recorded]
    begun = begun_by(outcomes[-1])
    players = begun.timing_session.begun if begun and isinstance(begun.timing_session, Sat) else []
    assert players == ([0] if recorded and not until else []), "where calls will be timed, a process is started"


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(
    ("tier", "until", "kept", "is_loaded"),
    [
        ("claim", "", MODES, True),
        ("search", "", MODES, False),
        ("search", "", MODES[:1], True),
        ("search", "", (), True),
        ("search", "check", (), False),
    ],
)
def test_torch_is_loaded_while_a_kernel_is_checked_where_it_will_be_asked(
    tier: Literal["search", "claim"],
    until: str,
    kept: tuple[str, ...],
    is_loaded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    session, modes = Repeatable(softmax(3)), tuple(Baseline(mode=mode, idle_us=(9,), queued_us=(8,)) for mode in kept)
    monkeypatch.setattr("warpsmith.evaluation.timing.preload_torch", lambda target, _uuid: begun.append(target))
    monkeypatch.setattr(
        "warpsmith.evaluation.timing.read_baselines", lambda _path: Baselines(modes=modes) if modes else None
    )
    check_on_gpu(evaluation(HostMachine(fake=session), cases=(Group.SMOKE,), tier=tier, until=until), ARTIFACT, None)
    assert begun == (["softmax"] if is_loaded else [])


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(("results_bytes", "alone"), [(2 << 30, False), (9 << 30, True)])
def test_a_check_that_takes_much_memory_is_one_at_a_time(
    results_bytes: int, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, during = list[str](), list[bool]()
    answer = softmax(10**9)
    session = Repeatable(lambda arguments: during.append(bool(held)) or answer(arguments))

    @contextmanager
    def memory() -> Iterator[None]:
        held.append("memory")
        yield
        held.clear()

    monkeypatch.setattr("warpsmith.machines.cuda.room_around", lambda *_rooms: Room(1 << 30, results_bytes, 1, 1 << 30))
    monkeypatch.setattr(HostMachine, "much_memory", lambda _machine: memory())
    check_on_gpu(evaluation(HostMachine(fake=session), cases=(Group.SMOKE,), until="check"), ARTIFACT, None)
    assert during and set(during) == {alone} and not held


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (Failure(Reason.WRONG_VALUE, "off"), Verdict.FAIL, Reason.WRONG_VALUE),
        (Failure(Reason.UNREPEATED, "a texture"), Verdict.QUARANTINE, Reason.UNREPEATED),
        (RECORDINGS, Verdict.PASS, None),
    ],
)
def test_what_cannot_be_repeated_is_in_quarantine(
    found: CapturedCalls | Failure, verdict: Verdict, reason: Reason | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.timing.capture_calls", lambda *_given: found)
    one = evaluation(HostMachine(has_room=False))
    attempt = _capture(one, cast(CudaSession, None), _subject(one, ARTIFACT, 1), [CASE])
    result = take_capture(one, attempt).result
    assert (result.verdict, result.reason) == (verdict, reason)
    assert (attempt.capture and attempt.capture.recordings) == (found if verdict is Verdict.PASS else None)
    assert ("a texture" in result.detail) is (reason is Reason.UNREPEATED)


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize("error", [HarnessError("no"), MachineError("no memory"), RuntimeError("no memory either")])
def test_a_player_that_cannot_begin_early_is_left_to_whoever_times(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    sat: list[Sat] = []

    def failing(timing_session: Sat, _number: int, _recorded: RepeatableCall) -> Player:
        sat.append(timing_session)
        raise error

    monkeypatch.setattr(Sat, "replayer", failing)
    one = evaluation()
    outcome = take_capture(one, captured(one))
    assert outcome.result.verdict is Verdict.PASS
    assert begun_by(outcome) is None and [timing_session.is_closed for timing_session in sat] == [True]


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(("until", "room", "begins"), [("", True, True), ("", False, False), ("record", True, False)])
def test_a_player_begins_early_where_it_will_be_timed_and_there_is_memory(until: str, room: bool, begins: bool) -> None:
    one = evaluation(HostMachine(has_room=room), until=until)
    assert (begun_by(take_capture(one, captured(one))) is not None) is begins


@pytest.mark.parametrize(("free", "wanted", "fits"), [(80, 5, True), (54, 5, False), (99, 20, False)])
def test_half_of_the_memory_is_left_to_others(
    free: int, wanted: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (free << 20, 100 << 20))
    assert CudaMachine(Gpu("small", "580", 100, "9.0")).has_room_for(wanted << 20) is fits


def test_a_timed_call_is_examined_as_a_checked_one() -> None:
    call = OPENED.problem(Direction.FORWARD, Trial(case=CASE))
    examine = _examine(evaluation(), Trial(case=CASE))
    assert examine(call, Shown(None, call.native)) is None
    wrong = examine(call, Shown(None, tuple(result + 1 for result in call.native)))
    assert wrong is not None and wrong.reason is Reason.WRONG_VALUE


def test_a_task_of_ours_is_solved_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "warpsmith.tasks.reference.problem", lambda program, direction, trial, device: asked.append(device)
    )
    CudaMachine(GPU).solve(OPENED, Direction.FORWARD, Trial(case=CASE))
    assert asked == ["cuda"]


@pytest.mark.parametrize(("capability", "arch"), [("9.0", "sm_90a"), ("8.6", "sm_86"), ("12.0", "sm_120a")])
def test_a_kernel_is_compiled_for_the_architecture_of_the_machine(capability: str, arch: str) -> None:
    assert CudaMachine(Gpu("a GPU", "580", 1, capability)).arch == arch
    modelled = VirtualMachine.of("H200").gpu
    major, minor = map(int, capability.split("."))
    assert VirtualMachine(modelled.model_copy(update={"capability": (major, minor)})).arch == arch


def test_the_virtual_gpu_does_not_stand_for_another_generation() -> None:
    result = preview_virtually(evaluation(record=compiled(1, arch="sm_120a")), ARTIFACT).result
    assert result.verdict is Verdict.SKIP and "sm_120a" in result.detail


def test_the_virtual_gpu_runs_no_library() -> None:
    result = preview_virtually(evaluation(record=compiled(1, ("libcublas.so.13",))), ARTIFACT).result
    assert result.verdict is Verdict.SKIP and "libcublas.so.13" in result.detail


@pytest.mark.parametrize(
    ("reason", "looked"),
    [(Reason.UNREPEATED, True), (Reason.CRASH, True), (Reason.TIME_LIMIT, True), (Reason.WRONG_VALUE, False)],
)
def test_after_a_fault_the_gpu_is_looked_at(reason: Reason, looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("warpsmith.machines.cuda.see_healthy", lambda _access: seen.append(True))
    failed = StageResult(stage="check", verdict=Verdict.FAIL, reason=reason, detail="d")
    assert _after(HostMachine(), failed) == failed
    assert bool(seen) is looked
