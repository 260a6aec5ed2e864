"""Samples of one candidate on one case: single calls, fresh inputs, idle and queued by turns, every output examined."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from warpsmith.base import median
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.session import Clocks, Mode, Session, Shown
from warpsmith.tasks.program import Problem
from warpsmith.timing.rules import undisturbed
from warpsmith.timing.stop import StopRule

# What is wrong with a call, if anything: the check room's judgement, passed in.
Examine = Callable[[Problem, Shown], Trouble | None]
WARM_CALLS = 3  # not counted: a first call may tune itself


@dataclass(frozen=True)
class Samples:
    """The clocks of the calls that count, by mode."""

    idle: list[Clocks] = field(default_factory=list)
    queued: list[Clocks] = field(default_factory=list)

    def add(self, mode: Mode, clocks: Clocks) -> None:
        """Keep one call."""
        (self.idle if mode is Mode.IDLE else self.queued).append(clocks)

    def kept(self) -> "Samples":
        """Without the calls during which the GPU was disturbed."""
        every = [*self.idle, *self.queued]
        good = dict(zip(map(id, every), undisturbed([clocks.flush_us for clocks in every]), strict=True))
        return Samples([c for c in self.idle if good[id(c)]], [c for c in self.queued if good[id(c)]])

    def joined(self, other: "Samples | Trouble") -> "Samples | Trouble":
        """These and another window's, unless that one came to trouble."""
        if isinstance(other, Trouble):
            return other
        return Samples([*self.idle, *other.idle], [*self.queued, *other.queued])

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self.idle) + len(self.queued)

    def events_us(self, mode: Mode) -> list[float]:
        """The worker's event times of one mode."""
        return [clocks.event_us for clocks in (self.idle if mode is Mode.IDLE else self.queued)]

    def wall_us(self) -> float:
        """The judge's clock from an idle device, median."""
        return median([clocks.wall_us for clocks in self.idle])


def sample(
    session: Session, calls: Iterator[Problem], examine: Examine, rule: StopRule, given: bool = False
) -> Samples | Trouble:
    """Call until the rule is content; the first wrong output ends it."""
    samples, begin, number = Samples(), time.monotonic(), 0
    while not rule.done(samples.events_us(Mode.QUEUED), time.monotonic() - begin):
        mode = Mode.QUEUED if number % 2 else Mode.IDLE
        shown = one(session, next(calls), examine, number, mode, given)
        if isinstance(shown, Trouble):
            return shown
        if number >= WARM_CALLS and shown.clocks is not None:
            samples.add(mode, shown.clocks)
        number += 1
    return samples


def one(session: Session, call: Problem, examine: Examine, number: int, mode: Mode, given: bool) -> Shown | Trouble:
    """One call, examined."""
    results: Sequence[Tensor] = call.native if given else ()
    shown = session.call(call.arguments, results, slot=number, mode=mode)
    return shown.trouble or examine(call, shown) or shown
