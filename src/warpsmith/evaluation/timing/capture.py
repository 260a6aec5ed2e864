"""The capture of one call of each timed case."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpsmith.base import quantile
from warpsmith.evaluation.timing.sample import Examine, make_call
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda import MARGINS, CudaSession, Edge, Margins, RepeatableCall, Room, room_for_all
from warpsmith.machines.worker import Mode
from warpsmith.records import Case, Failure, Reason, Trial
from warpsmith.tasks.inputs import tensors
from warpsmith.tasks.reference import Problem

# Calls of other inputs before the captured one. A first call may tune itself. A queued call shows whether work is still
# to run when the host function has returned: in a replay, which runs all operations in one order, nobody would see it.
# The idle calls tell how long the host function takes.
CALLS_BEFORE = (Mode.IDLE, Mode.QUEUED, Mode.IDLE)
# Addresses of the arenas, far from those that a process chooses by itself: the replay process must get the same ones.
# Captured parameters are searched for addresses, so these are values that small integers beside each other never form.
ARENA_ADDRESSES = (0x25B7_8000_0000, 0x2DB7_8000_0000, 0x35B7_8000_0000)


@dataclass(frozen=True)
class CapturedCalls:
    """One captured call of each case, on common arenas."""

    arenas: Room
    calls: Mapping[str, RepeatableCall]
    # The same calls with one argument against an end of the mapped memory; for a final claim alone.
    at_edges: Mapping[str, tuple[RepeatableCall, ...]] = field(default_factory=dict)


def replay_room(outlines: Iterable[Problem], margins: Margins = MARGINS) -> Room:
    """Return the layout for replays: one slot with a tail."""
    room = room_for_all(outlines, margins)
    return replace(room, slots=1, slot_bytes=room.slot_bytes + margins.tail_bytes)


def capture_calls(
    session: CudaSession,
    subject: TimingSubject,
    cases: Sequence[Case],
    examine: Callable[[Trial], Examine],
    is_claim: bool = False,
) -> CapturedCalls | Failure:
    """Capture a call of each case, or return the failure."""
    # The session's arenas must lie at `ARENA_ADDRESSES` and have room for every case. Each result is
    # compared before its capture counts.
    found, at_edges = {}, {}
    for case in cases:
        session.use(replay_room([subject.outline(case)], session.gpu.margins))
        captured = _capture_call(session, subject, case, examine)
        if isinstance(captured, Failure):
            return captured
        found[case.name] = captured
        edges = _capture_at_edges(session, subject, case, examine) if is_claim else ()
        if isinstance(edges, Failure):
            return edges
        at_edges[case.name] = edges
    return CapturedCalls(session.arenas, found, at_edges)


def _capture_at_edges(
    session: CudaSession, subject: TimingSubject, case: Case, examine: Callable[[Trial], Examine]
) -> tuple[RepeatableCall, ...] | Failure:
    """Capture calls with an argument at the memory's end."""
    # A kernel that reads past an argument then reads unmapped memory, which is an error of the GPU. Start
    # and end take turns from a random first one, so that a kernel cannot know which end is unmapped.
    found, turn = [], secrets.randbelow(2)
    for number in range(len(tensors(subject.outline(case).arguments))):
        trial, call = next(subject.calls(case))
        timed = subject.timed_call(trial, call, examine(trial))
        shown, captured = session.record(call.arguments, timed.given, Edge(number, (number + turn) % 2 == 0))
        if failure := shown.failure or timed.examine(call, shown):
            return failure
        if isinstance(captured, str):
            return Failure(Reason.UNREPEATED, captured)
        found.append(captured)
    return tuple(found)


def capture_alone(
    subject: TimingSubject, runtime: Path, cases: Sequence[Case], examine: Callable[[Trial], Examine], call_s: float
) -> CapturedCalls | Failure:
    """Capture each case in a worker of its own."""
    room, entry = replay_room(subject.outline(case) for case in cases), subject.direction.value
    with CudaSession(subject.artifact, entry, runtime, room, call_s, ARENA_ADDRESSES) as session:
        return capture_calls(session, subject, cases, examine)


def _capture_call(
    session: CudaSession, subject: TimingSubject, case: Case, examine: Callable[[Trial], Examine]
) -> RepeatableCall | Failure:
    """Make the calls before the capture, then capture one."""
    hosts_us = []
    for mode, (trial, other) in zip(CALLS_BEFORE, subject.others(case), strict=False):
        shown = make_call(session, subject.timed_call(trial, other, examine(trial)), mode)
        if isinstance(shown, Failure):
            return shown
        hosts_us += [shown.clocks.host_us] if shown.clocks and mode is Mode.IDLE else []
    trial, call = next(subject.calls(case))
    timed = subject.timed_call(trial, call, examine(trial))
    shown, captured = session.record(call.arguments, timed.given)
    if failure := shown.failure or timed.examine(call, shown):
        return failure
    if isinstance(captured, str):
        return Failure(Reason.UNREPEATED, captured)
    return replace(captured, host_us=quantile(hosts_us, 0.25))  # a disturbance only adds, so a low quartile is taken
