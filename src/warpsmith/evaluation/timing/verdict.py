"""The conclusion of one timed case."""

from collections.abc import Iterator, Sequence
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
class TimedCase:
    """One case's timing, and the failures of rules."""

    timing: CaseTiming
    doubts: tuple[Failure, ...]

    @property
    def reasons(self) -> set[Reason]:
        """The reasons of the failed rules."""
        return {doubt.reason for doubt in self.doubts}


@dataclass(frozen=True)
class TimeBounds:
    """The floor and the roofline of a case, in microseconds."""

    floor_us: float
    roofline_us: float


def bound_times(task: Task, direction: Direction, case: Case, call: Problem, floor: Floor) -> TimeBounds:
    """Return a case's floor and roofline time."""
    # The floor uses the bytes that the task states, and the roofline the least bytes and operations.
    # Without formulas only the empty kernel's time is left.
    written = float(sum(tensor.nbytes for tensor in call.native))
    work = task.least(direction, case) or Work(flops=0, bytes=0)
    read, stated = (max(0.0, moved - written) for moved in (work.bytes, task.bytes(direction, case) or 0.0))
    ideal = floor_us(floor.ceilings, read, written, work.flops, task.precision.arithmetic(case.dtype))
    return TimeBounds(floor.us(stated, written), ideal)


def conclude_case(
    case: Case, sides: Sequence[Sequence[Window]], baselines: Baselines, bounds: TimeBounds, launches: int
) -> TimedCase:
    """Return a case's timing with all failed rules."""
    # `sides` has the windows before the baselines and, for a claim, those after. Each side has a ratio of
    # its own, and `faster` needs both.
    windows = [window for side in sides for window in side]
    kinds = group_by_kind(windows)
    queued = kinds[rules.find_slowest_kind(kinds)]
    ratios = [baselines.best.us / max(map(median, group_by_kind(side).values())) for side in sides]
    timing = _summarize_case(case, windows, baselines, bounds, ratios).model_copy(update={"launches": launches})
    assert timing.speedup is not None  # computed from the best baseline above
    kept = Samples.merge([window.kept for window in windows])
    repeated = len(ratios) > 1 and min(ratios) > rules.GOOD_LIMIT
    doubts = (
        rules.check_disturbances([True] * kept.count + [False] * timing.discarded),
        *_check_windows(windows),
        rules.check_floor(median(queued), bounds.floor_us),
        rules.check_too_good(timing.speedup, repeated),
    )
    return TimedCase(timing, tuple(doubt for doubt in doubts if doubt is not None))


def _summarize_case(
    case: Case, windows: Sequence[Window], baselines: Baselines, bounds: TimeBounds, ratios: Sequence[float]
) -> CaseTiming:
    """Return the times of a case with its speedup."""
    kinds, best = group_by_kind(windows), baselines.best
    slowest = rules.find_slowest_kind(kinds)
    queued, counted = kinds[slowest], [clocks for window in windows for clocks in window.counted]
    speedup = rules.speed_ratio(best.queued_us, queued)
    return CaseTiming(
        case=case,
        time=rules.summarize_times(queued),
        kinds={kind: rules.summarize_times(times) for kind, times in kinds.items()},
        # Of the slowest kind, like the headline; a window may have no confirmed idle call of this kind.
        idle=rules.summarize_times(
            [clocks.event_us for clocks in counted if clocks.kind == slowest] or [clocks.event_us for clocks in counted]
        ),
        call=rules.summarize_times([clocks.host_us for clocks in counted]),
        baselines={baseline.mode: rules.summarize_times(baseline.queued_us) for baseline in baselines.modes},
        best=best.mode,
        speedup=speedup,
        claim=rules.compare_speeds(speedup, ratios, abs(best.us - median(queued))),
        floor_us=bounds.floor_us,
        roofline=bounds.roofline_us / median(queued),
        discarded=_count_calls(windows) - Samples.merge([window.kept for window in windows]).count,
        repeated=True,
        notes=baselines.notes(),
    )


def _count_calls(windows: Sequence[Window]) -> int:
    """Return the number of calls in all windows."""
    return sum(window.every.count for window in windows)


def _check_windows(windows: Sequence[Window]) -> Iterator[Failure | None]:
    """Yield each rule's failure or None, window by window."""
    for window in windows:
        yield from window.check()


def group_by_kind(windows: Sequence[Window]) -> dict[str, list[float]]:
    """Return the queued times of all windows by kind."""
    kinds = dict.fromkeys(kind for window in windows for kind in window.queued_us)
    return {
        kind: rules.take_equally([window.queued_us[kind] for window in windows if kind in window.queued_us])
        for kind in kinds
    }
