"""Modelled times of the full timing cases on the virtual GPU, for a search: counters carried over from siblings.

Effort `sketch`: each smoke case once, then the siblings; every call is checked as always, there are only few of them,
and no held-out shape. Effort `thorough`: the usual calls and the siblings, for a winner. A record says which it was.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from warpsmith.evaluation.check import PassedCall, PlannedCall
from warpsmith.evaluation.stages.modelled import STAGE, ModelledCall, doubt_of, timing_of
from warpsmith.evaluation.stages.probe import Probe, probes
from warpsmith.machines.virtual import Counters, Description, Facts, LaunchRow, Transfers, total
from warpsmith.machines.virtual.cost import modelled_cost
from warpsmith.records import (
    Case,
    CaseTiming,
    Direction,
    Family,
    Group,
    ModelledTime,
    Reason,
    StageResult,
    Task,
    TimingFacts,
    Trial,
    Verdict,
)
from warpsmith.tasks.inputs import SCHEME, input_seed, secret_source

NORM = 4


def sketch_steps(task: Task, direction: Direction, seed: int, scheme: int = SCHEME) -> tuple[PlannedCall, ...]:
    """Return the calls: every smoke case once, the first one again, then the siblings."""
    draw = secret_source(seed, "sketch", scheme)
    first = [_step(case, draw, draw.choice(case.families)) for case in task.group_or_first(Group.SMOKE)]
    siblings = [_step(case, draw, _plain(case)) for one in probes(task, direction) for case in one.siblings()]
    return (*first, replace(first[0], again=True), *siblings)


def _step(case: Case, draw: random.Random, family: Family) -> PlannedCall:
    return PlannedCall(Trial(case=case, init=draw.choice(case.inits), family=family, seed=input_seed(draw)))


def _plain(case: Case) -> Family:
    return Family.NORMAL if Family.NORMAL in case.families else case.families[0]


def sketched(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> StageResult:
    """Return modelled times of the timing cases; of the smoke cases if none can be cut enough."""
    by_name = {one.step.trial.case.name: one for one in seen if not one.step.again}
    cases = tuple(_cases(task, direction, by_name, gpu))
    if not cases:
        return StageResult(stage=STAGE, verdict=Verdict.SKIP, detail="No call ran a kernel on the virtual GPU.")
    facts = TimingFacts(tier="modelled", cases=cases)
    doubt = doubt_of(seen)
    if doubt is None:
        return StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts)
    return StageResult(stage=STAGE, verdict=Verdict.QUARANTINE, reason=Reason.HIDDEN_WORK, detail=doubt, facts=facts)


def _cases(task: Task, direction: Direction, seen: Mapping[str, PassedCall], gpu: Description) -> Iterator[CaseTiming]:
    chosen = probes(task, direction) or [Probe(case, case.axes) for case in task.group_or_first(Group.SMOKE)]
    for one in chosen:
        names = [case.name for case in one.siblings()] if one.sizes else [_whole(one, seen)]
        found = [seen[name].facts for name in names if name in seen]
        facts = [fact for fact in found if fact is not None and fact.kernels]
        if len(facts) == len(names):
            call, note = carried(one, facts, gpu)
            timing = timing_of(task, direction, one.case, call, gpu)
            yield timing.model_copy(update={"notes": (*timing.notes, note)})


def _whole(one: Probe, seen: Mapping[str, PassedCall]) -> str:
    """Return the name under which an uncut case was called."""
    sibling = one.siblings()[0].name
    return sibling if sibling in seen else one.case.name


def carried(one: Probe, facts: Sequence[Facts], gpu: Description) -> tuple[ModelledCall, str]:
    """Return a call of the full size, and a note on how its time was derived."""
    rows, transfers = full_call(one, facts)
    time = together(rows, gpu, transfers)
    launches = max(sum(row.launches for row in fact.kernels) for fact in facts)
    sizes = "; ".join(f"{name} {', '.join(map(str, parts))}" for name, parts in one.sizes.items())
    if not sizes:
        note = "counted at its own size"
    elif _matched(facts) is None:
        note = f"counters of the largest of {sizes} by its work: other kernels by size"
    else:
        note = f"counters carried over from {sizes}"
        rows = [_larger(row, one.across) for row in rows]
    return ModelledCall(time, rows, launches), note


def _larger(row: LaunchRow, across: float) -> LaunchRow:
    """Return the row for a profile: along an axis with one size, launches grow larger, not more."""
    return row.model_copy(update={"launches": max(1, round(row.launches / across))})


def full_call(one: Probe, facts: Sequence[Facts]) -> tuple[Sequence[LaunchRow], Transfers]:
    """Return launches and transfers of a call of the full size."""
    if not one.sizes:
        return facts[0].kernels, Transfers(facts[0].transfers, facts[0].transferred_bytes)
    rows = _matched(facts)
    grown = [_grown(one, same) for same in rows] if rows else [_more(row, one.growth) for row in facts[-1].kernels]
    transfers = Transfers(
        round(one.carried([fact.transfers for fact in facts])),
        round(one.carried([fact.transferred_bytes for fact in facts])),
    )
    return grown, transfers


def together(rows: Sequence[LaunchRow], gpu: Description, transfers: Transfers) -> ModelledTime:
    """Return the modelled time of a call in which similar bounds add to each other.

    By the largest bound alone, kernels that move the same bytes are all equal, however they move them. The norm of
    order `NORM` ranks them by what else they need, and the kernels measured in benchmarks/measurements as before.
    """
    plain = total(rows, gpu, transfers)
    more = sum(_hindrance(modelled_cost(row, gpu).bounds_us.values()) * row.launches for row in rows)
    return plain.model_copy(update={"us": plain.us + more})


def _hindrance(bounds: Collection[float]) -> float:
    most = max(bounds)
    norm: float = sum((bound / most) ** NORM for bound in bounds) ** (1 / NORM) if most else 1.0
    return most * (norm - 1.0)


def _matched(facts: Sequence[Facts]) -> list[tuple[LaunchRow, ...]] | None:
    """Return the same kernel at every sibling; None if they ran different kernels."""
    merged = [_merged(fact.kernels) for fact in facts]
    names = {tuple(rows) for rows in merged}
    return list(zip(*(rows.values() for rows in merged), strict=True)) if len(names) == 1 else None


def _merged(rows: Sequence[LaunchRow]) -> dict[tuple[str, tuple[int, int, int], bool], LaunchRow]:
    """Merge rows of the same kernel: their launch sizes may be equal in another sibling."""
    found: dict[tuple[str, tuple[int, int, int], bool], LaunchRow] = {}
    for row in rows:
        key = (row.kernel, row.block, row.in_graph)
        found[key] = _added(found[key], row) if key in found else row
    return dict(sorted(found.items()))


def _added(one: LaunchRow, other: LaunchRow) -> LaunchRow:
    launches = one.launches + other.launches
    blocks = (one.blocks * one.launches + other.blocks * other.launches) / launches
    counters = {name: getattr(one.counters, name) + getattr(other.counters, name) for name in Counters.model_fields}
    classes = {name: one.classes.get(name, 0) + other.classes.get(name, 0) for name in {*one.classes, *other.classes}}
    update = {"launches": launches, "grid": (round(blocks), 1, 1), "counters": Counters(**counters), "classes": classes}
    return one.model_copy(update=update)


def _grown(one: Probe, rows: Sequence[LaunchRow]) -> LaunchRow:
    """Return a launch at the full size."""

    def grow(values: Sequence[float]) -> int:
        return round(one.carried(values))

    blocks = grow([row.blocks for row in rows])
    counters = {name: grow([getattr(row.counters, name) for row in rows]) for name in Counters.model_fields}
    if one.moved is not None:
        last = rows[-1].counters
        counters["unique_read_bytes"] = round(last.unique_read_bytes * one.moved)
        counters["unique_written_bytes"] = round(last.unique_written_bytes * one.moved)
    counters["longest_thread"] = _longest(rows[-1], counters["warp_instructions"], blocks)
    classes = {name: grow([row.classes.get(name, 0) for row in rows]) for name in rows[-1].classes}
    return rows[-1].model_copy(
        update={
            "grid": (blocks, 1, 1),
            "launches": grow([row.launches for row in rows]),
            "counters": Counters(**counters),
            "classes": classes,
        }
    )


def _more(row: LaunchRow, growth: float) -> LaunchRow:
    """Return a launch of more equal blocks."""
    counts = {name: round(value * growth) for name, value in row.counters.model_dump().items()}
    counts["longest_thread"] = row.counters.longest_thread
    classes = {name: round(count * growth) for name, count in row.classes.items()}
    grid = (round(row.blocks * growth), 1, 1)
    return row.model_copy(update={"grid": grid, "counters": Counters(**counts), "classes": classes})


def _longest(row: LaunchRow, instructions: int, blocks: int) -> int:
    """Return the longest path of a grown launch, in the same ratio to the mean as in the largest sibling.

    Grown by itself it would follow a loop over parts that a host bounds at some size.
    """
    mean = row.counters.warp_instructions / row.blocks
    return round(row.counters.longest_thread / mean * instructions / blocks) if mean else 0
