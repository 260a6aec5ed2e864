"""The calls of one process on one case, held against a zero; and what is done before a doubt of them stands."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warpsmith.base import HarnessError, median
from warpsmith.sandbox.cuda_session import Recorded
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.player import Player
from warpsmith.sandbox.session import Clocks, Mode
from warpsmith.tasks.program import Problem
from warpsmith.timing import rules
from warpsmith.timing.null import Form
from warpsmith.timing.rules import OURS, OWN, Doubt, Slacks
from warpsmith.timing.sample import WARM_CALLS, Examine, Manner, Null, Samples, one, sample
from warpsmith.timing.sitting import Sitting, Zeros

PAUSES_S = (0.0, 0.5, 1.5)  # before each further process that has a chance
CHANCES_S = 10.0  # no further one after this: a candidate that delays its calls shall not keep the GPU for minutes


@dataclass(frozen=True)
class Window:
    """The calls of one process, and the zero that they are held against."""

    every: Samples
    null: Null
    repeated: bool  # without the candidate's host code
    thrown: int = 0  # processes before this one, about which the clocks disagreed
    why: str = ""  # the calls could not be repeated

    @cached_property
    def kept(self) -> Samples:
        """The calls that nothing disturbed."""
        return self.every.kept()

    @property
    def counted(self) -> list[Clocks]:
        """The calls from an idle device that say how long it takes: those that the judge's clock confirms."""
        return self.confirmed or self.kept.idle

    @cached_property
    def confirmed(self) -> list[Clocks]:
        """Those that the judge's clock confirms."""
        return self.kept.confirmed(self.null.beside_us, self.slacks)

    @property
    def slacks(self) -> Slacks:
        """How far its times may differ."""
        return OURS if self.repeated else OWN

    @property
    def us(self) -> float:
        """The time of a queued call."""
        return median(self.kept.events_us(Mode.QUEUED))

    def doubts(self) -> Iterator[Doubt | None]:
        """What the clocks do not agree on: each process by itself, so that an honest one covers for none."""
        kept, confirmed = self.kept, len(self.confirmed)
        yield rules.too_few(len(kept.queued))
        yield rules.clocks_disagree(confirmed, len(kept.idle), kept.beside_us(), self.null.beside_us)
        yield kept.hidden(self.null, self.slacks)
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
    recorded: Recorded | str  # a call to repeat, or why there is none
    others: Sequence[Problem] = ()  # calls of the same shapes, but of other families of inputs

    def window(self, number: int, outline: Problem) -> Window | Trouble:
        """Of calls that are repeated without the candidate's host code; where that fails, of calls in its process."""
        if isinstance(self.recorded, str):
            return self._of_its_own(number, outline, self.recorded)
        null = self.zeros.null(self.sitting.forms(outline)[0])
        self.sitting.rest()
        try:
            player = self.sitting.player(number, self.recorded)
        except HarnessError as error:
            return self._of_its_own(number, outline, str(error))
        warm_calls = max(0, WARM_CALLS - len(self.others))
        manner = replace(self.manner, null=null, slacks=OURS, warm_calls=warm_calls)
        found = self._other(player) or sample(player, self.calls, self.examine, manner)
        if isinstance(found, Trouble):
            return self._of_its_own(number, outline, f"repeated, {found.detail}")
        return Window(found, null, repeated=True)

    def _other(self, player: Player) -> Trouble | None:
        """What is wrong with calls of other inputs: host code may have chosen by those that it was recorded with."""
        for call in self.others:
            shown = one(player, call, self.examine, 0, Mode.IDLE, self.manner)
            if isinstance(shown, Trouble):
                return shown
        return None

    def _of_its_own(self, number: int, outline: Problem, why: str) -> Window | Trouble:
        """Where the clocks disagree, the calls are held against a zero that is more alike, set anew.

        Where they still do, fresh processes have a chance, one after the other, and the calls of the last alone count:
        who hides nothing there hides nothing. Some time lies between, since a busy machine is busy for a while. The
        zero is measured when nothing of the candidate runs, so that it cannot have a part in it.
        """
        form, alike = self.sitting.forms(outline)
        begin, found = time.monotonic(), self._sampled(number, form, why)
        for pause_s in PAUSES_S:
            if isinstance(found, Trouble) or found.agrees or time.monotonic() - begin > CHANCES_S:
                return found
            self.sitting.rest()
            time.sleep(pause_s)
            self.zeros.again(alike)
            again = replace(found, null=self.zeros.null(alike))
            if again.agrees:
                return again
            fresh = self._sampled(number, alike, why)
            found = fresh if isinstance(fresh, Trouble) else replace(fresh, thrown=found.thrown + 1)
        return found

    def _sampled(self, number: int, form: Form, why: str) -> Window | Trouble:
        null = self.zeros.null(form)
        found = sample(self.sitting.worker(number), self.calls, self.examine, replace(self.manner, null=null))
        return found if isinstance(found, Trouble) else Window(found, null, repeated=False, why=why)
