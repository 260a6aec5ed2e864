"""Samples of one candidate on one case: single calls, fresh inputs, idle and queued by turns, every output examined."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from warpsmith.base import median, quantile
from warpsmith.evaluation.timing.rules import hidden_work, least_confirmed, slack_us, undisturbed
from warpsmith.evaluation.timing.stop import StopRule
from warpsmith.machines.worker import Clocks, Mode, Session, Shown
from warpsmith.records import Failure
from warpsmith.tasks.reference import Problem

# What is wrong with a call, if anything: the check room's judgement, passed in.
Examine = Callable[[Problem, Shown], Failure | None]
WARM_CALLS = 2  # not counted
USUAL = "usual"  # the kind of inputs that every case has
# Of every dozen calls three are of other inputs and not counted, at secret places: a kernel that is right for usual
# ones only, be it after it has counted some calls, is found out.
DOZEN, OTHERS = 12, 3
TURNS = (Mode.IDLE, Mode.QUEUED, Mode.QUEUED)  # one call from an idle device confirms two that are queued
RANDOM = random.SystemRandom()
# Before a candidate that the clocks do not confirm is given up: times the most samples of the rule, or its seconds, but
# not before three times its least samples. A kernel of a second a call shall not keep the others waiting for minutes.
MOST_TURNS, PATIENCE, LEAST_TURNS = 4, 4, 3


@dataclass(frozen=True)
class TimedCall:
    """A call to time, its examination, its kind of input, and the results that the caller passes."""

    problem: Problem
    examine: Examine
    kind: str = USUAL
    given: Sequence[Tensor] = ()


Calls = Iterator[TimedCall]


def usual_us(flushes_us: Sequence[float]) -> float:
    """What tells one day from another: the lower quartile, since whatever disturbs a flush only adds."""
    return quantile(flushes_us, 0.25)


@dataclass(frozen=True)
class Null:
    """The clocks of a call of one form that computes nothing: the zero of the others."""

    queued_us: float
    idle_us: float
    beside_us: float  # what the judge waits beside the events

    @property
    def gap_us(self) -> float:
        """How much sooner it is done when it is queued ahead: what launches cost from an idle device."""
        return max(0.0, self.idle_us - self.queued_us)


@dataclass(frozen=True)
class Samples:
    """The clocks of the calls that count, by mode."""

    idle: list[Clocks] = field(default_factory=list)
    queued: list[Clocks] = field(default_factory=list)

    def add(self, mode: Mode, clocks: Clocks) -> None:
        """Keep one call."""
        (self.idle if mode is Mode.IDLE else self.queued).append(clocks)

    def kept(self) -> "Samples":
        """Without the calls during which the GPU was disturbed; where that leaves none of a mode, with all of it."""
        every = [*self.idle, *self.queued]
        good = dict(zip(map(id, every), undisturbed([clocks.flush_us for clocks in every]), strict=True))
        idle, queued = ([c for c in mode if good[id(c)]] for mode in (self.idle, self.queued))
        return Samples(idle or self.idle, queued or self.queued)

    @classmethod
    def all(cls, windows: Sequence["Samples"]) -> "Samples":
        """The calls of all windows."""
        return cls([c for one in windows for c in one.idle], [c for one in windows for c in one.queued])

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self.idle) + len(self.queued)

    def events_us(self, mode: Mode) -> list[float]:
        """The worker's event times of one mode."""
        return [clocks.event_us for clocks in (self.idle if mode is Mode.IDLE else self.queued)]

    def queued_us(self, kinds: Sequence[str]) -> dict[str, list[float]]:
        """The event times of the queued calls by the kind of their inputs."""
        return {kind: [one.event_us for one in self.queued if one.kind == kind] for kind in kinds}

    def beside_us(self, share: float = 0.5) -> float:
        """A quantile of what the judge waited beside the claims, from an idle device."""
        return quantile([clocks.beside_us for clocks in self.idle], share)

    def confirmed(self, null_beside_us: float) -> list[Clocks]:
        """The calls from an idle device that the judge's own clock confirms: only these say how long a call takes.

        One that was delayed on its way and one whose claim is too small look alike, and neither counts.
        """
        return [one for one in self.idle if one.beside_us <= null_beside_us + slack_us(one.event_us)]

    def soonest_us(self, null: Null) -> float:
        """The shortest call from an idle device, of the confirmed ones if there are any.

        Whatever disturbs a call only adds, and none can be shorter than its work.
        """
        return min(one.event_us for one in self.confirmed(null.beside_us) or self.idle)

    def hidden(self, null: Null) -> Failure | None:
        """Whether the queued calls are shorter than those from an idle device allow."""
        return hidden_work(self.soonest_us(null), median(self.events_us(Mode.QUEUED)), null.gap_us)

    @property
    def flush_us(self) -> float:
        """What the judge's own flushes took."""
        return usual_us([clocks.flush_us for clocks in (*self.idle, *self.queued)])


@dataclass(frozen=True)
class Manner:
    """How calls are made: when to stop, cold or warm, and the zero of the clocks.

    The rule holds for each kind of input by itself.
    """

    rule: StopRule
    cold: bool = True
    null: Null | None = None  # none: no call needs to be confirmed
    kinds: tuple[str, ...] = (USUAL,)

    def done(self, samples: Samples, elapsed_s: float) -> bool:
        """The rule, and both clocks content, or the end of patience. Only calls count that the verdict will count."""
        kept = samples.kept()
        queued_us = kept.queued_us(self.kinds).values()
        if self._tired(samples.count, min(map(len, queued_us)), elapsed_s):
            return True
        if not all(self.rule.done(times, elapsed_s) for times in queued_us):
            return False
        if self.null is None:
            return True
        if len(kept.confirmed(self.null.beside_us)) < least_confirmed(len(kept.idle)):
            return False
        return kept.hidden(self.null) is None

    def _tired(self, calls: int, rarest: int, elapsed_s: float) -> bool:
        """Whether patience ends, after these calls, of which so many are queued ones of the rarest kind of input."""
        each = calls / len(self.kinds)
        enough = each >= LEAST_TURNS * self.rule.least and rarest >= self.rule.least
        return (enough and elapsed_s >= PATIENCE * self.rule.seconds) or each >= MOST_TURNS * self.rule.most


def sample(
    session: Session,
    calls: Calls,
    manner: Manner,
    others: Calls | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Samples | Failure:
    """Call until it is enough; the first wrong output ends it."""
    samples, begin, number, turns, places = Samples(), clock(), 0, list[Mode](), _places(others is not None)
    while not manner.done(samples, clock() - begin):
        turns = turns or RANDOM.sample(TURNS, len(TURNS))  # in no order that a kernel could count on
        mode, is_other = turns[-1], next(places)
        call = next(others if others and is_other else calls)
        shown = one(session, call, mode, number, manner.cold)
        if isinstance(shown, Failure):
            return shown
        if not is_other:
            turns.pop()
            if number >= WARM_CALLS and shown.clocks is not None:
                samples.add(mode, replace(shown.clocks, kind=call.kind))
        number += 1
    return samples


def _places(wanted: bool) -> Iterator[bool]:
    """Of each call, whether it is of other inputs."""
    while True:
        chosen = RANDOM.sample(range(DOZEN), OTHERS) if wanted else ()
        yield from (place in chosen for place in range(DOZEN))


def one(session: Session, call: TimedCall, mode: Mode, slot: int = 0, cold: bool = True) -> Shown | Failure:
    """Make and examine one call."""
    shown = session.call(call.problem.arguments, call.given, slot=slot, mode=mode, cold=cold)
    return shown.failure or call.examine(call.problem, shown) or shown
