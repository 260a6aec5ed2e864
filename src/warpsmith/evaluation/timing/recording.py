"""A call of each case written down in the candidate's own process, so that it can be timed without its host code."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpsmith.base import quantile
from warpsmith.evaluation.timing.sample import Examine, one
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda import TAIL, CudaSession, Edge, RepeatableCall, Room, room_for_all
from warpsmith.machines.worker import Mode
from warpsmith.records import Case, Failure, Reason, Trial
from warpsmith.tasks.inputs import tensors
from warpsmith.tasks.reference import Problem

# The calls before the one that is recorded, of other inputs. A first call may tune itself; behind a gate
# it shows whether anything is still to run when the call is over, which nobody would see once all is repeated in one
# order. Those from an idle device tell how long the host takes.
BEFORE = (Mode.IDLE, Mode.QUEUED, Mode.IDLE)
# Where the arenas are asked for, far from where a process keeps its own: another must get them there as well. No small
# numbers beside each other look like these addresses.
PLACES = (0x25B7_8000_0000, 0x2DB7_8000_0000, 0x35B7_8000_0000)


@dataclass(frozen=True)
class Recordings:
    """A call of each case, by name, and the arenas that all were recorded on."""

    arenas: Room
    calls: Mapping[str, RepeatableCall]
    # The same calls with one argument against an end of the mapped memory; for a final claim alone.
    at_edges: Mapping[str, tuple[RepeatableCall, ...]] = field(default_factory=dict)


def room_of(outlines: Iterable[Problem]) -> Room:
    """For the calls of several cases, one at a time: a repeated call has one place, and a tail that is watched."""
    room = room_for_all(outlines)
    return replace(room, slots=1, slot_bytes=room.slot_bytes + TAIL)


def record_calls(
    session: CudaSession,
    subject: TimingSubject,
    cases: Sequence[Case],
    examine: Callable[[Trial], Examine],
    is_claim: bool = False,
) -> Recordings | Failure:
    """Of each case a call that can be repeated; else what is wrong with one, or why it cannot be.

    The session's arenas lie at `PLACES`, and have room for all of the cases.
    """
    found, at_edges = {}, {}
    for case in cases:
        session.use(room_of([subject.outline(case)]))
        recorded = _record(session, subject, case, examine)
        if not isinstance(recorded, RepeatableCall):
            return recorded
        found[case.name] = recorded
        edges = _record_at_edges(session, subject, case, examine) if is_claim else ()
        if not isinstance(edges, tuple):
            return edges
        at_edges[case.name] = edges
    return Recordings(session.arenas, found, at_edges)


def _record_at_edges(
    session: CudaSession, subject: TimingSubject, case: Case, examine: Callable[[Trial], Examine]
) -> tuple[RepeatableCall, ...] | Failure:
    """Capture a call for each tensor argument, which lies against the end or, every second time, the start of memory.

    A kernel that reads past an argument reads memory there that nobody has mapped, which is an error.
    """
    found, turn = [], secrets.randbelow(2)
    for number in range(len(tensors(subject.outline(case).arguments))):
        trial, call = next(subject.calls(case))
        timed = subject.timed_call(trial, call, examine(trial))
        shown, recorded = session.record(call.arguments, timed.given, Edge(number, (number + turn) % 2 == 0))
        if failure := shown.failure or timed.examine(call, shown):
            return failure
        if isinstance(recorded, str):
            return Failure(Reason.UNREPEATED, recorded)
        found.append(recorded)
    return tuple(found)


def record_alone(
    subject: TimingSubject, runtime: Path, cases: Sequence[Case], examine: Callable[[Trial], Examine], call_s: float
) -> Recordings | Failure:
    """The same in a process of its own, which is gone afterwards."""
    room, entry = room_of(subject.outline(case) for case in cases), subject.direction.value
    with CudaSession(subject.artifact, entry, runtime, room, call_s, PLACES) as session:
        return record_calls(session, subject, cases, examine)


def _record(
    session: CudaSession, subject: TimingSubject, case: Case, examine: Callable[[Trial], Examine]
) -> RepeatableCall | Failure:
    hosts_us = []
    for mode, (trial, other) in zip(BEFORE, subject.others(case), strict=False):
        shown = one(session, subject.timed_call(trial, other, examine(trial)), mode)
        if isinstance(shown, Failure):
            return shown
        hosts_us += [shown.clocks.host_us] if shown.clocks and mode is Mode.IDLE else []
    trial, call = next(subject.calls(case))
    timed = subject.timed_call(trial, call, examine(trial))
    shown, recorded = session.record(call.arguments, timed.given)
    if failure := shown.failure or timed.examine(call, shown):
        return failure
    if isinstance(recorded, str):
        return Failure(Reason.UNREPEATED, recorded)
    return replace(recorded, host_us=quantile(hosts_us, 0.25))  # whatever disturbs a host only adds
