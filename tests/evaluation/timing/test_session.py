"""Who sits under the clock, with sessions that are fakes: what is recorded, and which process repeats it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pytest
from tests.evaluation.timing.faking import FakeSession
from torch import Tensor

from warpsmith.evaluation.timing.capture import CALLS_BEFORE, CapturedCalls, capture_calls, replay_room
from warpsmith.evaluation.timing.session import OLD_S, TimingSession
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda import MARGINS
from warpsmith.machines.cuda.room import Room as CudaRoom, room_for_all
from warpsmith.machines.cuda.session import CudaSession, RepeatableCall
from warpsmith.machines.cuda.slot import Edge
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.worker.protocol import CapturedOperations
from warpsmith.machines.worker.session import Clocks, Mode, Shown
from warpsmith.records import Case, Direction, Dtype, Failure, Group, Language, Reason, Trial
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.values import Values
from warpsmith.tasks.reference.fresh import outline
from warpsmith.tasks.reference.program import Problem

CASE = Case(name="c", group=Group.TIMING, axes={"rows": 512, "cols": 64}, dtype=Dtype.FLOAT32)
OPENED = open_task("softmax")
CALL = outline(OPENED, Direction.FORWARD, Trial(case=CASE))
RECORDED = RepeatableCall(CapturedOperations("", (1, 2, 3), b"operations"), (), (), ())
SUBJECT = TimingSubject(
    OPENED, "softmax", OPENED.describe(), Direction.FORWARD, Path("x.so"), Language.TORCH, 1, draw=lambda *_: CALL
)
ARENAS = CudaRoom(1 << 20, 1 << 21, 1)
WRONG = Failure(Reason.WRONG_VALUE, "off")


@dataclass
class Recorder(FakeSession):
    """A session that has something to tell of its last call."""

    told: RepeatableCall | str = RECORDED
    arenas: CudaRoom = ARENAS

    def record(
        self, arguments: Values, given: Sequence[Tensor] = (), edge: Edge | None = None
    ) -> tuple[Shown, RepeatableCall | str]:
        told = self.told
        return self.call(arguments, given), told if isinstance(told, str) else replace(told, edge=edge)


@dataclass
class Room:
    """Buffers, and players that have begun on them."""

    begun: list["FakePlayer"] = field(default_factory=list)

    def __call__(self, *_given: object) -> "Room":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

    def player(self, _artifact: Path, _runtime: Path, _room: "Room", bases: Sequence[int], *_given: object) -> Any:
        self.begun.append(FakePlayer(tuple(bases)))
        return self.begun[-1]


@dataclass
class FakePlayer:
    """What is asked of a player."""

    bases: tuple[int, ...]
    played: list[RepeatableCall] = field(default_factory=list)
    failure: Failure | None = None
    ended: bool = False
    died: Failure | None = None  # which nobody knows before it is asked something

    def play(self, recorded: RepeatableCall) -> None:
        self.played.append(recorded)
        self.failure = self.died

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = True


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def now_s() -> list[float]:
    """The time of the clock, in a list of one."""
    return [0.0]


@pytest.fixture
def timing_session(room: Room, now_s: list[float]) -> Iterator[TimingSession]:
    buffers: Any = room
    with TimingSession(SUBJECT, RehearsedMachine(), ARENAS, 1.0, lambda: now_s[0], room.player, buffers) as found:
        yield found


def recorded(session: Recorder, wrong_at: int = -1, is_claim: bool = False) -> CapturedCalls | Failure:
    seen: list[Problem] = []

    def examine(call: Problem, _shown: Shown) -> Failure | None:
        seen.append(call)
        return WRONG if len(seen) == wrong_at else None

    return capture_calls(cast(CudaSession, session), SUBJECT, [CASE], lambda _trial: examine, is_claim)


def test_calls_of_both_modes_come_before_the_one_that_is_recorded() -> None:
    session = Recorder([Clocks(20.0, 7.0, 30.0, 400.0), Clocks(20.0, 9.0, 30.0, 400.0)])
    found = recorded(session)
    assert isinstance(found, CapturedCalls) and found.arenas == ARENAS
    assert found.calls["c"].recording == RECORDED.recording
    assert 7.0 <= found.calls["c"].host_us < 9.0, "whatever disturbs a host only adds"
    assert session.room == replay_room([CALL])
    assert [mode for _, mode, _ in session.calls] == [*CALLS_BEFORE, Mode.IDLE]
    assert Mode.QUEUED in CALLS_BEFORE and CALLS_BEFORE[0] is Mode.IDLE


def test_a_claim_captures_a_call_for_each_argument_by_turns_at_the_end_and_the_start() -> None:
    opened, wide = open_task("linear"), {"rows": 16, "inner": 16, "cols": 16}
    case = CASE.model_copy(update={"axes": wide, "name": "of three arguments"})
    problem = opened.problem(Direction.FORWARD, Trial(case=case))
    subject = replace(SUBJECT, opened=opened, task=opened.describe(), draw=lambda *_: problem)
    session = cast(CudaSession, Recorder([Clocks(20.0, 7.0, 30.0, 400.0)]))
    found = capture_calls(session, subject, [case], lambda _trial: lambda _call, _shown: None, is_claim=True)
    assert isinstance(found, CapturedCalls)
    edges = [call.edge for call in found.at_edges[case.name] if call.edge is not None]
    assert [edge.tensor for edge in edges] == [0, 1, 2]
    assert edges[0].is_end is edges[2].is_end is not edges[1].is_end
    assert recorded(Recorder([Clocks(20.0, 7.0, 30.0, 400.0)]), len(CALLS_BEFORE) + 2, is_claim=True) is WRONG


def test_a_tail_behind_the_arguments_is_watched() -> None:
    assert replay_room([CALL]).slot_bytes == room_for_all([CALL]).slot_bytes + MARGINS.tail_bytes
    assert replay_room([CALL]).slots == 1


@pytest.mark.parametrize("wrong_at", [1, len(CALLS_BEFORE), len(CALLS_BEFORE) + 1])
def test_a_wrong_result_in_any_of_them_is_the_candidate_s(wrong_at: int) -> None:
    assert recorded(Recorder([Clocks(20.0, 7.0, 30.0, 400.0)]), wrong_at) is WRONG


def test_what_cannot_be_repeated_has_a_reason() -> None:
    session = Recorder([Clocks(20.0, 7.0, 30.0, 400.0)], told="a graph that nobody saw being made")
    found = recorded(session)
    assert found == Failure(Reason.UNREPEATED, "a graph that nobody saw being made")


def test_a_player_stays_for_many_recordings_and_one_in_trouble_is_replaced(
    timing_session: TimingSession, room: Room
) -> None:
    first, other = timing_session.replayer(0, RECORDED), timing_session.replayer(1, RECORDED)
    assert timing_session.replayer(0, RECORDED) is first and first is not other
    assert room.begun[0].bases == (1, 2, 3) and len(room.begun[0].played) == 2
    room.begun[0].failure = WRONG
    assert timing_session.replayer(0, RECORDED) is not first
    assert [one.ended for one in room.begun] == [True, False, False]


def test_a_player_that_died_while_it_waited_is_replaced_and_a_new_one_is_believed(
    timing_session: TimingSession, room: Room
) -> None:
    timing_session.replayer(0, RECORDED)
    room.begun[0].died = Failure(Reason.TIME_LIMIT, "it ran longer than 600 s")
    assert not timing_session.replayer(0, RECORDED).failure and len(room.begun) == 2
    assert [one.ended for one in room.begun] == [True, False]


def test_a_player_that_may_not_live_through_another_window_is_replaced(
    timing_session: TimingSession, room: Room, now_s: list[float]
) -> None:
    """Its end in the middle of one would be told of the candidate."""
    timing_session.replayer(0, RECORDED)
    now_s[0] += OLD_S
    assert not timing_session.replayer(0, RECORDED).failure and timing_session.replayer(0, RECORDED)
    assert [one.ended for one in room.begun] == [True, False]
