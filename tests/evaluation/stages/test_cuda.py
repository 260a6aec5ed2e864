"""What the stages for a real GPU decide without one: which cases are timed, how many launches are believed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Literal, cast

import pytest
import torch
from torch import Tensor

from warpsmith.base import HarnessError, MachineError
from warpsmith.evaluation import Choices
from warpsmith.evaluation.check import Seen, Step
from warpsmith.evaluation.stages.cuda import (
    _after,
    _examine,
    _launches,
    _record,
    _subject,
    _timed_cases,
    check_stage,
    has_room_for,
    record_stage,
    solver,
    timing_stage,
    virtual_stage,
)
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.stages import arch_of
from warpsmith.evaluation.timing.baselines import Baseline, Baselines
from warpsmith.evaluation.timing.recording import Recordings, Unrepeated
from warpsmith.evaluation.timing.sitting import Sitting
from warpsmith.evaluation.timing.subject import Subject
from warpsmith.machines.cuda.player import Player
from warpsmith.machines.cuda.room import Room
from warpsmith.machines.cuda.session import CudaSession, Recorded
from warpsmith.machines.hardware import Gpu
from warpsmith.machines.virtual import Facts, Row
from warpsmith.machines.worker.fake_session import FakeSession
from warpsmith.machines.worker.observation import Trouble
from warpsmith.machines.worker.protocol import Recording
from warpsmith.machines.worker.session import Clocks, Shown
from warpsmith.records import (
    MODES,
    Candidate,
    Case,
    CompileFacts,
    Direction,
    Environment,
    Group,
    Heldout,
    KernelResources,
    Reason,
    Record,
    StageResult,
    Trial,
    Verdict,
)
from warpsmith.tasks.host.find import open_task
from warpsmith.tasks.inputs.heldout import NEAR, NEAR_CASES
from warpsmith.tasks.inputs.values import Values
from warpsmith.tasks.reference.fresh import problems

OPENED = open_task("softmax")
TASK = OPENED.describe()
DRAWN = Heldout.model_fields["count"].default  # held-out shapes, one of each kind of size
CANDIDATE = Candidate(task="softmax", direction=Direction.FORWARD, source="x")
CASE = TASK.group(Group.SMOKE)[0]
RECORDED = Recorded(Recording("", (1, 2, 3), b""), (), (), ())
RECORDINGS = Recordings(Room(1, 2, 1), {"c": RECORDED})


def desk(*cases: Group, seen: tuple[Seen, ...] = ()) -> Desk:
    return Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda", cases=cases), seed=3, seen=seen)


def compiled(kernels: int, libraries: tuple[str, ...] = (), arch: str = "sm_90a") -> Record:
    record = Record(candidate=CANDIDATE, task_version="1", environment=Environment(device="d", hardware="h"))
    resources = tuple(KernelResources(name=str(n), registers=8) for n in range(kernels))
    facts = CompileFacts(arch=arch, kernels=resources, libraries=libraries)
    return record.adding(StageResult(stage="compile", verdict=Verdict.PASS, facts=facts))


@pytest.mark.parametrize("group", [Group.TIMING, Group.DEV, Group.SMOKE])
def test_the_chosen_group_is_timed_and_by_default_the_timing_cases(group: Group) -> None:
    assert _timed_cases(desk(group)) == list(TASK.group(group))
    assert _timed_cases(desk()) == list(TASK.group(Group.TIMING))


def test_held_out_cases_are_drawn_before_they_are_timed() -> None:
    found = _timed_cases(desk(Group.HELDOUT))
    assert len(found) == DRAWN + NEAR_CASES and all(case.group is Group.HELDOUT for case in found)


def test_a_claim_times_held_out_cases_too() -> None:
    claimed = Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda", tier="claim"), seed=3)
    found = _timed_cases(claimed)
    assert found[: len(TASK.group(Group.TIMING))] == list(TASK.group(Group.TIMING))
    drawn = found[len(TASK.group(Group.TIMING)) :]
    assert [case.group for case in drawn] == [Group.HELDOUT] * (DRAWN + NEAR_CASES)
    assert [case.name.startswith(NEAR) for case in drawn] == [False] * DRAWN + [True] * NEAR_CASES


def test_launches_are_those_that_the_virtual_gpu_counted() -> None:
    row = Row(kernel="k", launches=3, grid=(1, 1, 1), block=(32, 1, 1))
    seen = (Seen(Step(Trial(case=CASE)), 0.0, Facts(kernels=(row, row))),)
    assert _launches(desk(seen=seen), compiled(1)) == 6


@pytest.mark.parametrize(("kernels", "believed"), [(1, 1), (3, 3), (50, 8)])
def test_without_a_virtual_run_the_artifact_s_kernels_are_counted(kernels: int, believed: int) -> None:
    assert _launches(desk(), compiled(kernels)) == believed


class Timed:
    """A timer that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Subject, Sequence[Case], Recordings]] = []

    def stage(
        self, sitting: "Sat", subject: Subject, cases: Sequence[Case], _examine: object, recorded: Recordings
    ) -> StageResult:
        assert not sitting.is_closed
        self.asked.append((subject, cases, recorded))
        self.sat = sitting
        return StageResult(stage="timing", verdict=Verdict.PASS)


class Sat(Sitting):
    """Which players were begun, and whether it is over."""

    def __init__(self, subject: Subject, runtime: Path, arenas: Room, call_s: float) -> None:
        super().__init__(subject, runtime, arenas, call_s)
        self.begun: list[int] = []
        self.is_closed = False

    def player(self, number: int, recorded: Recorded) -> Player:
        self.begun.append(number)
        return cast(Player, None)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("begun", "waited_s", "same"), [(False, 0.0, False), (True, 0.0, True), (True, 999.0, False)])
def test_what_was_recorded_is_timed_in_the_sitting_that_was_begun_unless_it_is_old(
    begun: bool, waited_s: float, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, one = Timed(), Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda"), 3, Path("x.so"))
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.timer_for", lambda hardware, *_given: timer)
    with pytest.raises(HarnessError, match="before the record stage"):
        timing_stage(one)(compiled(3))
    one.subject, one.recorded = _subject(one, 3), RECORDINGS
    monkeypatch.setattr("warpsmith.evaluation.timing.sitting.Sitting", Sat)
    early = one.sitting = Sat(one.subject, Path(), RECORDINGS.arenas, 1.0) if begun else None
    now = time.monotonic()
    monkeypatch.setattr("warpsmith.evaluation.timing.sitting.time.monotonic", lambda: now + waited_s)
    assert timing_stage(one)(compiled(3)).verdict is Verdict.PASS
    assert timer.asked == [(one.subject, list(TASK.group(Group.TIMING)), RECORDINGS)]
    assert (timer.sat is early) is same and timer.sat.is_closed and one.sitting is None
    assert early is None or early.is_closed


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.gpus", lambda: (Gpu("H200", "580", 143771, "9.0"),))
    monkeypatch.setattr("warpsmith.evaluation.timing.sitting.Sitting", Sat)
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.has_room_for", lambda _bytes: True)
    monkeypatch.setattr("warpsmith.evaluation.timing.host.begin_host", lambda _target: None)


class Repeatable(FakeSession):
    """A session on which a call can be recorded; which rooms it was told to use."""

    rooms: list[Room]
    arenas = Room(1, 2, 1)

    def on(self, arenas: Room) -> "Repeatable":
        """Begun on these."""
        self.arenas, self.rooms = arenas, []
        return self

    def use(self, room: Room) -> None:
        assert room.slot_bytes * room.slots <= self.arenas.slot_bytes * self.arenas.slots
        assert room.results_bytes <= self.arenas.results_bytes and room.snapshot_bytes <= self.arenas.snapshot_bytes
        self.rooms.append(room)

    def record(self, arguments: Values, given: Sequence[Tensor] = ()) -> tuple[Shown, Recorded]:
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
        ("", len(desk(Group.SMOKE).steps("cuda")) + 2, [Verdict.PASS, Verdict.FAIL]),
    ],
)
def test_what_was_checked_is_recorded_in_the_same_process(
    until: str, wrong_from: int, said: list[Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, made = Repeatable(softmax(wrong_from)), problems
    monkeypatch.setattr("warpsmith.machines.cuda.session.CudaSession", lambda *given: session.on(given[3]))
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.solver", lambda opened: opened.problem)
    monkeypatch.setattr("warpsmith.evaluation.timing.subject.problems", lambda *given: made(*given[:-1], "cpu"))
    chosen = Choices(device="cuda", cases=(Group.SMOKE,), until=until)
    one = Desk("softmax", OPENED, TASK, CANDIDATE, chosen, 3, Path("x.so"))
    results = [check_stage(one)(compiled(1))]
    results += [record_stage(one)(compiled(1))] if one.recording else []
    assert [result.verdict for result in results] == said, results
    recorded = said == [Verdict.PASS, Verdict.PASS]
    assert (set(one.recorded.calls) if one.recorded else set()) == (
        {case.name for case in TASK.group(Group.SMOKE)} if recorded else set()
    )
    rooms = {True: len(TASK.group(Group.SMOKE)), False: len(said) - 1}  # one a case, up to the first that is wrong
    assert [room.slots for room in session.rooms] == [4] + [1] * rooms[recorded]
    begun = one.sitting.begun if isinstance(one.sitting, Sat) else []
    assert begun == ([0] if recorded and not until else []), "where it will be timed, a player is begun"


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
    monkeypatch.setattr("warpsmith.machines.cuda.session.CudaSession", lambda *given: session.on(given[3]))
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.solver", lambda opened: opened.problem)
    monkeypatch.setattr("warpsmith.evaluation.timing.host.begin_host", begun.append)
    monkeypatch.setattr(
        "warpsmith.evaluation.timing.baselines.load", lambda _path: Baselines(modes=modes) if modes else None
    )
    chosen = Choices(device="cuda", cases=(Group.SMOKE,), tier=tier, until=until)
    check_stage(Desk("softmax", OPENED, TASK, CANDIDATE, chosen, 3, Path("x.so")))(compiled(1))
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

    monkeypatch.setattr("warpsmith.machines.cuda.session.CudaSession", lambda *given: session.on(given[3]))
    monkeypatch.setattr(
        "warpsmith.machines.cuda.room.room_around", lambda *_rooms: Room(1 << 30, results_bytes, 1, 1 << 30)
    )
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.much_memory", memory)
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.solver", lambda opened: opened.problem)
    chosen = Choices(device="cuda", cases=(Group.SMOKE,), until="check")
    check_stage(Desk("softmax", OPENED, TASK, CANDIDATE, chosen, 3, Path("x.so")))(compiled(1))
    assert during and set(during) == {alone} and not held


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (Trouble(Reason.WRONG_VALUE, "off"), Verdict.FAIL, Reason.WRONG_VALUE),
        (Unrepeated("a texture"), Verdict.QUARANTINE, Reason.UNREPEATED),
        (RECORDINGS, Verdict.PASS, None),
    ],
)
def test_what_cannot_be_repeated_is_in_quarantine(
    found: Recordings | Trouble | Unrepeated, verdict: Verdict, reason: Reason | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.timing.recording.record_calls", lambda *_given: found)
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.has_room_for", lambda _bytes: False)
    one = Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda"), 3, Path("x.so"))
    with pytest.raises(HarnessError, match="before the check stage"):
        record_stage(one)(compiled(1))
    _record(one, cast(CudaSession, None), _subject(one, 1), [CASE])
    result = record_stage(one)(compiled(1))
    assert (result.verdict, result.reason) == (verdict, reason)
    assert one.recorded == (found if verdict is Verdict.PASS else None)
    assert ("a texture" in result.detail) is (reason is Reason.UNREPEATED)


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize("error", [HarnessError("no"), MachineError("no memory"), RuntimeError("no memory either")])
def test_a_player_that_cannot_begin_early_is_left_to_whoever_times(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    sat: list[Sat] = []

    def failing(sitting: Sat, _number: int, _recorded: Recorded) -> Player:
        sat.append(sitting)
        raise error

    monkeypatch.setattr(Sat, "player", failing)
    one = Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda"), 3, Path("x.so"))
    one.subject, one.recorded = _subject(one, 1), RECORDINGS
    one.recording = StageResult(stage="record", verdict=Verdict.PASS)
    assert record_stage(one)(compiled(1)).verdict is Verdict.PASS
    assert one.sitting is None and [sitting.is_closed for sitting in sat] == [True]


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(("until", "room", "begins"), [("", True, True), ("", False, False), ("record", True, False)])
def test_a_player_begins_early_where_it_will_be_timed_and_there_is_memory(
    until: str, room: bool, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.has_room_for", lambda _bytes: room)
    one = Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="cuda", until=until), 3, Path("x.so"))
    one.subject, one.recorded = _subject(one, 1), RECORDINGS
    one.recording = StageResult(stage="record", verdict=Verdict.PASS)
    record_stage(one)(compiled(1))
    assert (one.sitting is not None) is begins


@pytest.mark.parametrize(("free", "wanted", "fits"), [(80, 5, True), (54, 5, False), (99, 20, False)])
def test_half_of_the_memory_is_left_to_others(
    free: int, wanted: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free << 20, 100 << 20))
    monkeypatch.setattr("warpsmith.evaluation.stages.cuda.gpus", lambda: (Gpu("small", "580", 100, "9.0"),))
    assert has_room_for(wanted << 20) is fits


def test_a_timed_call_is_examined_as_a_checked_one() -> None:
    call = OPENED.problem(Direction.FORWARD, Trial(case=CASE))
    examine = _examine(desk(), Trial(case=CASE))
    assert examine(call, Shown(None, call.native)) is None
    wrong = examine(call, Shown(None, tuple(result + 1 for result in call.native)))
    assert wrong is not None and wrong.reason is Reason.WRONG_VALUE


def test_a_task_of_ours_is_solved_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "warpsmith.tasks.reference.program.problem", lambda program, direction, trial, device: asked.append(device)
    )
    solver(OPENED)(Direction.FORWARD, Trial(case=CASE))
    assert asked == ["cuda"]


@pytest.mark.parametrize(("capability", "arch"), [("9.0", "sm_90a"), ("8.6", "sm_86"), ("12.0", "sm_120a")])
def test_a_kernel_is_compiled_for_the_gpu_that_is_here(
    capability: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.stages.stages.gpus", lambda: (Gpu("a GPU", "580", 1, capability),))
    assert arch_of("cuda") == arch
    assert arch_of("vgpu") == "sm_90a"


def test_the_virtual_gpu_does_not_stand_for_another_generation() -> None:
    result = virtual_stage(desk())(compiled(1, arch="sm_120a"))
    assert result.verdict is Verdict.SKIP and "sm_120a" in result.detail


def test_the_virtual_gpu_runs_no_library() -> None:
    result = virtual_stage(desk())(compiled(1, ("libcublas.so.13",)))
    assert result.verdict is Verdict.SKIP and "libcublas.so.13" in result.detail


@pytest.mark.parametrize(
    ("reason", "looked"),
    [(Reason.UNREPEATED, True), (Reason.CRASH, True), (Reason.TIME_LIMIT, True), (Reason.WRONG_VALUE, False)],
)
def test_after_a_fault_the_gpu_is_looked_at(reason: Reason, looked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("warpsmith.machines.cuda.health.see_healthy", lambda: seen.append(True))
    failed = StageResult(stage="check", verdict=Verdict.FAIL, reason=reason, detail="d")
    assert _after(failed) == failed
    assert bool(seen) is looked


def test_launches_on_the_virtual_gpu_have_bounded_credit() -> None:
    row = Row(kernel="k", launches=100, grid=(1, 1, 1), block=(32, 1, 1))
    seen = (Seen(Step(Trial(case=CASE)), 0.0, Facts(kernels=(row,))),)
    assert _launches(desk(seen=seen), compiled(1)) == 16
