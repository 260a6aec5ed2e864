"""The calls of one player on one case, held against a zero."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warpsmith.base import HarnessError, median
from warpsmith.evaluation.timing import rules
from warpsmith.evaluation.timing.recording import PLACES, room_of
from warpsmith.evaluation.timing.sample import USUAL, Calls, Manner, Null, Samples, one, sample
from warpsmith.evaluation.timing.sitting import Sitting
from warpsmith.evaluation.timing.zeros import Zeros
from warpsmith.machines.cuda import RepeatableCall
from warpsmith.machines.hardware import gpu_state, gpus
from warpsmith.machines.worker import Clocks, Mode
from warpsmith.records import Failure, Reason
from warpsmith.tasks.reference import Problem


@dataclass(frozen=True)
class Window:
    """The calls of one process, and the zero that they are held against."""

    every: Samples
    null: Null
    slowed: tuple[str, ...] = ()  # what held the GPU back when they were made
    kinds: tuple[str, ...] = (USUAL,)  # of the inputs of the calls that count

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
        return self.kept.confirmed(self.null.beside_us)

    @cached_property
    def queued_us(self) -> dict[str, list[float]]:
        """The times of undisturbed queued calls by the kind of their inputs; kinds without any are left out."""
        return {kind: times for kind, times in self.kept.queued_us(self.kinds).items() if times}

    @property
    def us(self) -> float:
        """The time of a queued call of the slowest kind of input."""
        return max(map(median, self.queued_us.values()))

    def doubts(self) -> Iterator[Failure | None]:
        """What the clocks do not agree on: each process by itself, so that an honest one covers for none."""
        kept, confirmed = self.kept, len(self.confirmed)
        yield rules.held_back(self.slowed)
        yield rules.too_few({kind: len(times) for kind, times in kept.queued_us(self.kinds).items()})
        yield rules.clocks_disagree(confirmed, len(kept.idle), kept.beside_us(), self.null.beside_us)
        yield kept.hidden(self.null)

    @property
    def agrees(self) -> bool:
        """Whether there is none."""
        return not any(self.doubts())


@dataclass(frozen=True)
class Windows:
    """Makes windows of one case in the players of a sitting."""

    sitting: Sitting
    zeros: Zeros
    calls: Calls
    manner: Manner
    recorded: RepeatableCall
    others: Calls | None = None  # calls of the same shapes: host code may have chosen by those it was recorded with

    def window(self, number: int, outline: Problem) -> Window | Failure:
        """Of calls that are repeated without the candidate's host code."""
        null = self.zeros.null(self.sitting.form(outline))
        try:
            player = self.sitting.player(number, self.recorded)
            player.use(room_of([outline]))
        except HarnessError as error:
            if self.recorded.recording.bases == PLACES:
                raise
            return Failure(Reason.UNREPEATED, f"what it says of its memory cannot be: {error}")  # no fault of ours
        found = sample(player, self.calls, replace(self.manner, null=null), self.others)
        if isinstance(found, Failure):
            return Failure(Reason.UNREPEATED, f"repeated without its host code, {found.detail}")
        return Window(found, null, gpu_state(next((gpu.uuid for gpu in gpus()), "")).slowed, self.manner.kinds)

    def replay_at_edges(self, calls: Sequence[RepeatableCall], outline: Problem) -> Failure | None:
        """Replay once each call that has an argument against an end of the mapped memory; return what went wrong."""
        for recorded in calls:
            player = self.sitting.player(0, recorded)
            player.use(room_of([outline]))
            shown = one(player, next(self.calls), Mode.IDLE)
            if isinstance(shown, Failure) and recorded.edge is not None:
                end = "end" if recorded.edge.is_end else "start"
                where = f"with tensor {recorded.edge.tensor} of its arguments against the {end} of mapped memory"
                return Failure(Reason.UNREPEATED, f"repeated without its host code, {where}: {shown.detail}")
        return None

    def windows(self, numbers: Sequence[int], outline: Problem, made: Sequence[Window] = ()) -> list[Window] | Failure:
        """Those that were made, and one in each of some players."""
        found = list(made)
        for number in numbers:
            one = self.window(number, outline)
            if isinstance(one, Failure):
                return one
            found.append(one)
        return found
