"""From samples and baselines to what a record says of one case: the times, the ratio, the claim, and the doubts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.base import evaluate, median, quantile
from warpsmith.records import Case, CaseTiming, Direction, Reason, Task
from warpsmith.sandbox.session import Mode
from warpsmith.tasks.program import Problem
from warpsmith.timing import rules
from warpsmith.timing.baselines import Baselines
from warpsmith.timing.null import Null
from warpsmith.timing.rules import Ceilings, Doubt
from warpsmith.timing.sample import Samples

WALL_SETTLES_US = 20.0  # below this the judge's clock cannot confirm the worker's


@dataclass(frozen=True)
class Bench:
    """The zeros and ceilings of this GPU, measured before candidates are."""

    null: Null
    ceilings: Ceilings


@dataclass(frozen=True)
class Judged:
    """One case: what the record says, and why it may not be believed."""

    timing: CaseTiming
    doubts: tuple[Doubt, ...]

    @property
    def reasons(self) -> set[Reason]:
        """Of the doubts."""
        return {doubt.reason for doubt in self.doubts}


def floor_of(task: Task, direction: Direction, case: Case, call: Problem, ceilings: Ceilings) -> float:
    """The floor of a case: the bytes it cannot do without, less those it writes, at the measured rate."""
    written = sum(prod(tensor.shape) * tensor.element_size() for tensor in call.native)
    cost = task.cost.get(direction)
    total = float(evaluate(cost.bytes, {**case.axes, "size": case.dtype.bytes})) if cost else float(written)
    return rules.floor_us(ceilings, max(0.0, total - written), written)


def judged(
    case: Case, windows: Sequence[Samples], baselines: Baselines, bench: Bench, floor_us: float, launches: int
) -> Judged:
    """Everything that can be said of one case from its windows; more than one are of more than one process."""
    every = [window.kept() for window in windows]
    kept, total = Samples.all(every), sum(window.count for window in windows)
    queued, confirmed = kept.events_us(Mode.QUEUED), kept.confirmed(bench.null.beside_us)
    fastest = baselines.best
    speedup = rules.ratio(fastest.queued_us, queued)
    ratios = [fastest.us / median(window.events_us(Mode.QUEUED)) for window in every]
    counted = confirmed or kept.idle
    timing = CaseTiming(
        case=case,
        time=rules.measured(queued),
        idle=rules.measured([clocks.event_us for clocks in counted]),
        call=rules.measured([clocks.host_us for clocks in counted]),
        baselines={baseline.mode: rules.measured(baseline.queued_us) for baseline in baselines.modes},
        best=fastest.mode,
        speedup=speedup,
        claim=rules.claim(speedup, ratios),
        floor_us=floor_us,
        roofline=floor_us / median(queued),
        launches=launches,
        discarded=total - kept.count,
        notes=(*_notes(median(queued)), *baselines.notes()),
    )
    doubts = (
        rules.disturbed([True] * kept.count + [False] * (total - kept.count)),
        rules.clocks_disagree(len(confirmed), len(kept.idle), kept.beside_us(), bench.null.beside_us),
        rules.hidden_work(quantile([one.event_us for one in counted], 0.25), median(queued), launches, bench.null.cost),
        rules.below_floor(median(queued), floor_us),
        rules.too_good(speedup, repeated=len(ratios) > 1 and min(ratios) > rules.GOOD_LIMIT),
    )
    return Judged(timing, tuple(doubt for doubt in doubts if doubt is not None))


def _notes(time_us: float) -> tuple[str, ...]:
    if time_us >= WALL_SETTLES_US:
        return ()
    return (f"below {WALL_SETTLES_US:g} µs the judge's clock cannot confirm the worker's events",)
