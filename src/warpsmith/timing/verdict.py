"""From samples and baselines to what a record says of one case: the times, the ratio, the claim, and the doubts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.base import evaluate, median
from warpsmith.records import Case, CaseTiming, Direction, Task
from warpsmith.sandbox.session import Mode
from warpsmith.tasks.program import Problem
from warpsmith.timing import rules
from warpsmith.timing.baselines import Baseline, best
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


def floor_of(task: Task, direction: Direction, case: Case, call: Problem, ceilings: Ceilings) -> float:
    """The floor of a case: the bytes it cannot do without, less those it writes, at the measured rate."""
    written = sum(prod(tensor.shape) * tensor.element_size() for tensor in call.native)
    cost = task.cost.get(direction)
    total = float(evaluate(cost.bytes, {**case.axes, "size": case.dtype.bytes})) if cost else float(written)
    return rules.floor_us(ceilings, max(0.0, total - written), written)


def judged(
    case: Case, samples: Samples, baselines: Sequence[Baseline], bench: Bench, floor_us: float, launches: int
) -> Judged:
    """Everything that can be said of the samples of one case."""
    kept = samples.kept()
    idle, queued = kept.events_us(Mode.IDLE), kept.events_us(Mode.QUEUED)
    fastest = best(baselines)
    speedup = rules.ratio(fastest.queued_us, queued)
    timing = CaseTiming(
        case=case,
        time=rules.measured(queued),
        idle=rules.measured(idle),
        call=rules.measured([clocks.host_us for clocks in kept.idle]),
        baselines={baseline.mode: rules.measured(baseline.queued_us) for baseline in baselines},
        best=fastest.mode,
        speedup=speedup,
        claim=rules.claim(speedup),
        floor_us=floor_us,
        roofline=floor_us / median(queued),
        launches=launches,
        discarded=samples.count - kept.count,
        notes=_notes(median(queued)),
    )
    return Judged(timing, _doubts(timing, kept, samples, bench, launches))


def _notes(time_us: float) -> tuple[str, ...]:
    if time_us >= WALL_SETTLES_US:
        return ()
    return (f"below {WALL_SETTLES_US:g} µs the judge's clock cannot confirm the worker's events",)


def _doubts(timing: CaseTiming, kept: Samples, samples: Samples, bench: Bench, launches: int) -> tuple[Doubt, ...]:
    assert timing.idle is not None and timing.speedup is not None and timing.floor_us is not None
    null = bench.null
    share = [True] * kept.count + [False] * (samples.count - kept.count)
    found = (
        rules.disturbed(share),
        rules.clocks_disagree(timing.idle.us, null.idle_us, kept.wall_us(), null.wall_us),
        rules.hidden_work(timing.idle.us, timing.time.us, launches, null.cost),
        rules.below_floor(timing.time.us, timing.floor_us),
        rules.too_good(timing.speedup, repeated=False),
    )
    return tuple(doubt for doubt in found if doubt is not None)
