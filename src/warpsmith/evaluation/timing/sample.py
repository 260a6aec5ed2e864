"""Samples of a captured call, with every result examined."""
# Calls are single, with fresh inputs, and idle or queued in random order. A kernel therefore cannot work
# for one call during another, and cannot tell which calls count.

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from warpsmith.base import median, quantile
from warpsmith.evaluation.timing.rules import (
    StopRule,
    check_hidden_work,
    confirmed_calls_needed,
    find_undisturbed,
    slack_us,
)
from warpsmith.machines.worker import Clocks, Mode, Session, Shown
from warpsmith.records import Failure
from warpsmith.tasks.reference import Problem

# Compares the results of a call with its reference; passed in by the stage, as the check's own comparison.
Examine = Callable[[Problem, Shown], Failure | None]
WARM_CALLS = 2  # made first, and not counted
USUAL = "usual"  # the kind of inputs that every case has
# Of every twelve calls three have other inputs and are not counted, at random places. So a kernel that is right for the
# usual inputs only is found, even if it behaves well for a number of calls first.
DOZEN, OTHERS = 12, 3
TURNS = (Mode.IDLE, Mode.QUEUED, Mode.QUEUED)  # one idle call confirms two queued ones
RANDOM = random.SystemRandom()
# When a candidate whose clocks disagree is given up: at four times the rule's most calls, or at four times its seconds
# and three times its least calls. A kernel of a second a call shall not keep others waiting for minutes.
# Without a bound a candidate whose clocks never agree would keep the GPU for ever.
MOST_TURNS, PATIENCE, LEAST_TURNS = 4, 4, 3


@dataclass(frozen=True)
class TimedCall:
    """A call to time, with its examination."""

    problem: Problem
    examine: Examine
    kind: str = USUAL
    given: Sequence[Tensor] = ()


Calls = Iterator[TimedCall]


def typical_flush_us(flushes_us: Sequence[float]) -> float:
    """Return the lower quartile of flush times."""
    # A disturbance only adds to a flush, and a drift moves all of them.
    return quantile(flushes_us, 0.25)


@dataclass(frozen=True)
class EmptyKernelTimes:
    """An empty kernel's times in microseconds."""

    # They are the zero of both clocks: a launch and an answer cost time although nothing is computed.

    queued_us: float
    idle_us: float
    beside_us: float  # the evaluator's wait beyond the events

    @property
    def gap_us(self) -> float:
        """The launch cost that a queued call hides."""
        return max(0.0, self.idle_us - self.queued_us)


@dataclass(frozen=True)
class Samples:
    """The clocks of the counted calls, by mode."""

    idle: list[Clocks] = field(default_factory=list)
    queued: list[Clocks] = field(default_factory=list)

    def add(self, mode: Mode, clocks: Clocks) -> None:
        """Add the clocks of one call."""
        (self.idle if mode is Mode.IDLE else self.queued).append(clocks)

    def drop_disturbed(self) -> "Samples":
        """Return the calls with a usual flush."""
        # A mode without any keeps all of its calls, since every later statistic needs at least one.
        every = [*self.idle, *self.queued]
        good = dict(zip(map(id, every), find_undisturbed([clocks.flush_us for clocks in every]), strict=True))
        idle, queued = ([clocks for clocks in mode if good[id(clocks)]] for mode in (self.idle, self.queued))
        return Samples(idle or self.idle, queued or self.queued)

    @classmethod
    def merge(cls, windows: Sequence["Samples"]) -> "Samples":
        """Return the calls of all windows."""
        return cls([c for one in windows for c in one.idle], [c for one in windows for c in one.queued])

    @property
    def count(self) -> int:
        """The number of calls."""
        return len(self.idle) + len(self.queued)

    def events_us(self, mode: Mode) -> list[float]:
        """Return one mode's event times in microseconds."""
        return [clocks.event_us for clocks in (self.idle if mode is Mode.IDLE else self.queued)]

    def queued_us(self, kinds: Sequence[str]) -> dict[str, list[float]]:
        """Return the queued event times by kind of input."""
        return {kind: [clocks.event_us for clocks in self.queued if clocks.kind == kind] for kind in kinds}

    def beside_us(self, share: float = 0.5) -> float:
        """Return a quantile of the wait beyond idle events."""
        return quantile([clocks.beside_us for clocks in self.idle], share)

    def find_confirmed(self, empty_beside_us: float) -> list[Clocks]:
        """Return the idle calls that the evaluator's clock confirms."""
        # A delayed answer and an event time that is too short look alike here, and neither of them
        # counts.
        return [clocks for clocks in self.idle if clocks.beside_us <= empty_beside_us + slack_us(clocks.event_us)]

    def fastest_idle_us(self, empty: EmptyKernelTimes) -> float:
        """Return the shortest idle call, confirmed if possible."""
        # A disturbance only adds, so no call is shorter than its work.
        return min(clocks.event_us for clocks in self.find_confirmed(empty.beside_us) or self.idle)

    def check_hidden_work(self, empty: EmptyKernelTimes) -> Failure | None:
        """Return a failure if queued calls hide work, else None."""
        return check_hidden_work(self.fastest_idle_us(empty), median(self.events_us(Mode.QUEUED)), empty.gap_us)

    @property
    def flush_us(self) -> float:
        """The typical time of the evaluator's own flushes."""
        return typical_flush_us([clocks.flush_us for clocks in (*self.idle, *self.queued)])


@dataclass(frozen=True)
class SamplingOptions:
    """When to stop, the L2's state, and the empty kernel."""

    rule: StopRule
    cold: bool = True
    empty: EmptyKernelTimes | None = None  # None: no call needs to be confirmed
    kinds: tuple[str, ...] = (USUAL,)

    def is_done(self, samples: Samples, elapsed_s: float) -> bool:
        """Return whether to stop sampling."""
        # The rule must be met for each kind of input alone, by undisturbed calls only, and the clocks
        # must agree; or patience is over. More calls are made while a rule is unmet, since most
        # disturbances pass.
        kept = samples.drop_disturbed()
        queued_us = kept.queued_us(self.kinds).values()
        if self._is_patience_over(samples.count, min(map(len, queued_us)), elapsed_s):
            return True
        if not all(self.rule.is_met(times, elapsed_s) for times in queued_us):
            return False
        if self.empty is None:
            return True
        if len(kept.find_confirmed(self.empty.beside_us)) < confirmed_calls_needed(len(kept.idle)):
            return False
        return kept.check_hidden_work(self.empty) is None

    def _is_patience_over(self, calls: int, rarest: int, elapsed_s: float) -> bool:
        """Return whether to give up after these calls."""
        each = calls / len(self.kinds)
        enough = each >= LEAST_TURNS * self.rule.least and rarest >= self.rule.least
        return (enough and elapsed_s >= PATIENCE * self.rule.seconds) or each >= MOST_TURNS * self.rule.most


def sample(
    session: Session,
    calls: Calls,
    options: SamplingOptions,
    others: Calls | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Samples | Failure:
    """Make calls until done; return clocks or a failure."""
    # `others` are calls of other inputs at random places. Their results are examined, and their times do
    # not count. The order of modes is random as well: a kernel that knows the next mode could do its work
    # in the mode that counts less.
    samples, start_s, number = Samples(), clock(), 0
    turns, places = list[Mode](), _draw_places(others is not None)
    while not options.is_done(samples, clock() - start_s):
        turns = turns or RANDOM.sample(TURNS, len(TURNS))  # in an order that no kernel can predict
        mode, is_other = turns[-1], next(places)
        call = next(others if others and is_other else calls)
        shown = make_call(session, call, mode, number, options.cold)
        if isinstance(shown, Failure):
            return shown
        if not is_other:
            turns.pop()
            if number >= WARM_CALLS and shown.clocks is not None:
                samples.add(mode, replace(shown.clocks, kind=call.kind))
        number += 1
    return samples


def _draw_places(has_others: bool) -> Iterator[bool]:
    """Yield for each call whether its inputs are others."""
    while True:
        chosen = RANDOM.sample(range(DOZEN), OTHERS) if has_others else ()
        yield from (place in chosen for place in range(DOZEN))


def make_call(session: Session, call: TimedCall, mode: Mode, slot: int = 0, cold: bool = True) -> Shown | Failure:
    """Make and examine one call; return observation or failure."""
    shown = session.call(call.problem.arguments, call.given, slot=slot, mode=mode, cold=cold)
    return shown.failure or call.examine(call.problem, shown) or shown
