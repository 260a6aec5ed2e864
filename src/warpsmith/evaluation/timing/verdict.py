"""From samples and baselines to what a record says of one case: the times, the ratio, the claim, and the doubts."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.base import median
from warpsmith.evaluation.timing import rules
from warpsmith.evaluation.timing.baselines import Baselines
from warpsmith.evaluation.timing.rules import Floor
from warpsmith.evaluation.timing.sample import Samples
from warpsmith.evaluation.timing.window import Window
from warpsmith.machines.hardware import floor_us
from warpsmith.records import Case, CaseTiming, Direction, Failure, Reason, Task, Work
from warpsmith.tasks.reference import Problem


@dataclass(frozen=True)
class Judged:
    """One case: what the record says, and why it may not be believed."""

    timing: CaseTiming
    doubts: tuple[Failure, ...]

    @property
    def reasons(self) -> set[Reason]:
        """Of the doubts."""
        return {doubt.reason for doubt in self.doubts}


@dataclass(frozen=True)
class Least:
    """The least times of one case: the floor of what is believed, and the roofline's."""

    floor_us: float
    roofline_us: float


def least(task: Task, direction: Direction, case: Case, call: Problem, floor: Floor) -> Least:
    """From the bytes and operations of the task; what is written is told by the results. Only formulas make a floor."""
    written = float(sum(tensor.nbytes for tensor in call.native))
    work = task.least(direction, case) or Work(flops=0, bytes=0)
    read, stated = (max(0.0, moved - written) for moved in (work.bytes, task.bytes(direction, case) or 0.0))
    ideal = floor_us(floor.ceilings, read, written, work.flops, task.precision.arithmetic(case.dtype))
    return Least(floor.us(stated, written), ideal)


def judged(case: Case, sides: Sequence[Sequence[Window]], baselines: Baselines, bounds: Least, launches: int) -> Judged:
    """Everything that can be said of one case from its windows before torch's and, for a claim, after."""
    windows = [window for side in sides for window in side]
    kept, total = Samples.all([window.kept for window in windows]), sum(window.every.count for window in windows)
    kinds = together(windows)
    kind = rules.slowest_kind(kinds)
    queued, counted = kinds[kind], [clocks for window in windows for clocks in window.counted]
    idle_us = [clocks.event_us for clocks in counted if clocks.kind == kind] or [one.event_us for one in counted]
    fastest = baselines.best
    speedup = rules.ratio(fastest.queued_us, queued)
    ratios = [fastest.us / max(map(median, together(side).values())) for side in sides]
    timing = CaseTiming(
        case=case,
        time=rules.measured(queued),
        kinds={one: rules.measured(times) for one, times in kinds.items()},
        idle=rules.measured(idle_us),
        call=rules.measured([clocks.host_us for clocks in counted]),
        baselines={baseline.mode: rules.measured(baseline.queued_us) for baseline in baselines.modes},
        best=fastest.mode,
        speedup=speedup,
        claim=rules.claim(speedup, ratios, abs(fastest.us - median(queued))),
        floor_us=bounds.floor_us,
        roofline=bounds.roofline_us / median(queued),
        launches=launches,
        discarded=total - kept.count,
        repeated=True,
        notes=baselines.notes(),
    )
    doubts = (
        rules.disturbed([True] * kept.count + [False] * (total - kept.count)),
        *(doubt for window in windows for doubt in window.doubts()),
        rules.below_floor(median(queued), bounds.floor_us),
        rules.too_good(speedup, repeated=len(ratios) > 1 and min(ratios) > rules.GOOD_LIMIT),
    )
    return Judged(timing, tuple(doubt for doubt in doubts if doubt is not None))


def together(windows: Sequence[Window]) -> dict[str, list[float]]:
    """Return the queued times of all windows by the kind of input.

    As many of each window: every process counts alike, however many calls it made.
    """
    kinds = dict.fromkeys(kind for window in windows for kind in window.queued_us)
    return {
        kind: rules.balanced([window.queued_us[kind] for window in windows if kind in window.queued_us])
        for kind in kinds
    }
