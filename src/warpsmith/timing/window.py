"""The calls of one process on one case, held against a zero; and what is done before a doubt of them stands."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from warpsmith.base import median
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.session import Clocks, Mode
from warpsmith.tasks.program import Problem
from warpsmith.timing import rules
from warpsmith.timing.null import Form
from warpsmith.timing.rules import Doubt
from warpsmith.timing.sample import Examine, Manner, Null, Samples, sample
from warpsmith.timing.sitting import Sitting, Zeros

PAUSES_S = (0.0, 0.5, 1.5)  # before each further process that has a chance
CHANCES_S = 10.0  # no further one after this: a candidate that delays its calls shall not keep the GPU for minutes


@dataclass(frozen=True)
class Window:
    """The calls of one process, and the zero that they are held against."""

    every: Samples
    null: Null
    thrown: int = 0  # processes before this one, about which the clocks disagreed

    @cached_property
    def kept(self) -> Samples:
        """The calls that nothing disturbed."""
        return self.every.kept()

    @property
    def counted(self) -> list[Clocks]:
        """The calls from an idle device that say how long it takes: those that the judge's clock confirms."""
        return self.kept.confirmed(self.null.beside_us) or self.kept.idle

    @property
    def us(self) -> float:
        """The time of a queued call."""
        return median(self.kept.events_us(Mode.QUEUED))

    def doubts(self) -> Iterator[Doubt | None]:
        """What the clocks do not agree on: each process by itself, so that an honest one covers for none."""
        kept, confirmed = self.kept, self.kept.confirmed(self.null.beside_us)
        yield rules.too_few(len(kept.queued))
        yield rules.clocks_disagree(len(confirmed), len(kept.idle), kept.beside_us(), self.null.beside_us)
        yield kept.hidden(self.null)
        yield rules.rehearsed_work(kept.rehearsal_us, self.us)

    @property
    def agrees(self) -> bool:
        """Whether there is none."""
        return not any(self.doubts())


@dataclass(frozen=True)
class Windows:
    """Makes windows of one case in the workers of a sitting."""

    sitting: Sitting
    zeros: Zeros
    calls: Iterator[Problem]
    examine: Examine
    manner: Manner

    def window(self, number: int, outline: Problem) -> Window | Trouble:
        """Where the clocks disagree, the calls are held against a zero that is more alike, set anew.

        Where they still do, fresh processes have a chance, one after the other, and the calls of the last alone count:
        who hides nothing there hides nothing. Some time lies between, since a busy machine is busy for a while. The
        zero is measured when nothing of the candidate runs, so that it cannot have a part in it.
        """
        form, alike = self.sitting.forms(outline)
        begin, found = time.monotonic(), self._sampled(number, form)
        for pause_s in PAUSES_S:
            if isinstance(found, Trouble) or found.agrees or time.monotonic() - begin > CHANCES_S:
                return found
            self.sitting.rest()
            time.sleep(pause_s)
            self.zeros.again(alike)
            again = replace(found, null=self.zeros.null(alike))
            if again.agrees:
                return again
            fresh = self._sampled(number, alike)
            found = fresh if isinstance(fresh, Trouble) else replace(fresh, thrown=found.thrown + 1)
        return found

    def _sampled(self, number: int, form: Form) -> Window | Trouble:
        null = self.zeros.null(form)
        found = sample(self.sitting.worker(number), self.calls, self.examine, replace(self.manner, null=null))
        return found if isinstance(found, Trouble) else Window(found, null)
