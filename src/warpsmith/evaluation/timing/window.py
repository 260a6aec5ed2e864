"""The calls of one replay process on one case."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warpsmith.base import HarnessError, median
from warpsmith.evaluation.timing import rules
from warpsmith.evaluation.timing.capture import ARENA_ADDRESSES, replay_room
from warpsmith.evaluation.timing.empty_kernel import EmptyKernels
from warpsmith.evaluation.timing.sample import (
    USUAL,
    Calls,
    EmptyKernelTimes,
    Samples,
    SamplingOptions,
    make_call,
    sample,
)
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.machines.cuda import RepeatableCall
from warpsmith.machines.worker import Clocks, Mode
from warpsmith.records import Failure, Reason
from warpsmith.tasks.reference import Problem


@dataclass(frozen=True)
class Window:
    """The calls of one process, with the empty kernel's times."""

    every: Samples
    empty: EmptyKernelTimes
    slowed: tuple[str, ...] = ()  # causes that slowed the GPU down during the calls
    kinds: tuple[str, ...] = (USUAL,)  # of the inputs

    @cached_property
    def kept(self) -> Samples:
        """The undisturbed calls."""
        return self.every.drop_disturbed()

    @property
    def counted(self) -> list[Clocks]:
        """The confirmed idle calls, else all undisturbed ones."""
        return self.confirmed or self.kept.idle

    @cached_property
    def confirmed(self) -> list[Clocks]:
        """The idle calls that the evaluator's clock confirms."""
        return self.kept.find_confirmed(self.empty.beside_us)

    @cached_property
    def queued_us(self) -> dict[str, list[float]]:
        """The undisturbed queued times by kind of input."""
        return {kind: times for kind, times in self.kept.queued_us(self.kinds).items() if times}

    @property
    def us(self) -> float:
        """The slowest kind's median of queued calls."""
        return max(map(median, self.queued_us.values()))

    def check(self) -> Iterator[Failure | None]:
        """Yield each rule's failure, or None."""
        # Each process is judged alone: a sound window must not excuse one in which the events were
        # changed.
        kept, confirmed = self.kept, len(self.confirmed)
        yield rules.check_throttling(self.slowed)
        yield rules.check_sample_counts({kind: len(times) for kind, times in kept.queued_us(self.kinds).items()})
        yield rules.check_clocks(confirmed, len(kept.idle), kept.beside_us(), self.empty.beside_us)
        yield kept.check_hidden_work(self.empty)

    @property
    def is_sound(self) -> bool:
        """Whether no rule fails."""
        return not any(self.check())


@dataclass(frozen=True)
class WindowSource:
    """The windows of one case in a timing session."""

    timing_session: TimingSession
    empty_kernels: EmptyKernels
    calls: Calls
    options: SamplingOptions
    captured: RepeatableCall
    others: Calls | None = None  # other inputs of the same shapes: host code may have looked at the captured inputs

    def measure(self, number: int, outline: Problem) -> Window | Failure:
        """Measure a window; return a failure if a replay fails."""
        empty = self.empty_kernels.times(self.timing_session.empty_form(outline))
        try:
            replayer = self.timing_session.replayer(number, self.captured)
            replayer.use(replay_room([outline], self.timing_session.machine.access.margins))
        except HarnessError as error:
            if self.captured.recording.bases == ARENA_ADDRESSES:
                raise
            # The worker reported these addresses. If no process can have them, the report is wrong, and not warpsmith.
            return Failure(Reason.UNREPEATED, f"what it says of its memory cannot be: {error}")
        found = sample(replayer, self.calls, replace(self.options, empty=empty), self.others)
        if isinstance(found, Failure):
            return Failure(Reason.UNREPEATED, f"repeated without its host code, {found.detail}")
        return Window(found, empty, self.timing_session.machine.state().slowed, self.options.kinds)

    def replay_at_edges(self, calls: Sequence[RepeatableCall], outline: Problem) -> Failure | None:
        """Replay calls with an argument at the memory's end; return the first failure or None."""
        for captured in calls:
            replayer = self.timing_session.replayer(0, captured)
            replayer.use(replay_room([outline], self.timing_session.machine.access.margins))
            shown = make_call(replayer, next(self.calls), Mode.IDLE)
            if isinstance(shown, Failure) and captured.edge is not None:
                end = "end" if captured.edge.is_end else "start"
                where = f"with tensor {captured.edge.tensor} of its arguments against the {end} of mapped memory"
                return Failure(Reason.UNREPEATED, f"repeated without its host code, {where}: {shown.detail}")
        return None

    def measure_all(
        self, numbers: Sequence[int], outline: Problem, made: Sequence[Window] = ()
    ) -> list[Window] | Failure:
        """Return windows of several processes, or the first failure."""
        found = list(made)
        for number in numbers:
            window = self.measure(number, outline)
            if isinstance(window, Failure):
                return window
            found.append(window)
        return found
