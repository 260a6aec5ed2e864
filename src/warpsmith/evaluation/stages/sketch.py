"""Extrapolated times of timing cases on the virtual GPU."""
# Effort `sketch` calls each smoke case once and then the siblings; every call is checked, but no held-out
# shape is called. Effort `thorough` adds the siblings to the usual calls. The record names the effort.

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
    """Return smoke calls, one repeated, then the siblings."""
    # The repeated call shows a stored result: it costs almost no instructions.
    draw = secret_source(seed, "sketch", scheme)
    first = [_step(case, draw, draw.choice(case.families)) for case in task.group_or_first(Group.SMOKE)]
    siblings = [_step(case, draw, _plain(case)) for one in probes(task, direction) for case in one.siblings()]
    return (*first, replace(first[0], again=True), *siblings)


def _step(case: Case, draw: random.Random, family: Family) -> PlannedCall:
    """Return a call of a case with a drawn seed."""
    return PlannedCall(Trial(case=case, init=draw.choice(case.inits), family=family, seed=input_seed(draw)))


def _plain(case: Case) -> Family:
    """Return the family of normal values, else the first."""
    return Family.NORMAL if Family.NORMAL in case.families else case.families[0]


def sketched(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> StageResult:
    """Return the extrapolated times of the timing cases."""
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
    """Yield the timing of each case with all its siblings."""
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
    """Return the name under which an uncut case ran."""
    sibling = one.siblings()[0].name
    return sibling if sibling in seen else one.case.name


def carried(one: Probe, facts: Sequence[Facts], gpu: Description) -> tuple[ModelledCall, str]:
    """Return a call of the full size, with a note."""
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
    """Return a row whose launches grow instead of multiply."""
    return row.model_copy(update={"launches": max(1, round(row.launches / across))})


def full_call(one: Probe, facts: Sequence[Facts]) -> tuple[Sequence[LaunchRow], Transfers]:
    """Return the full-size launches and transfers of a call."""
    # If the siblings ran different kernels, no polynomial fits; the counters of the largest sibling are
    # then scaled by the work.
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
    """Return the modelled time with similar bounds added."""
    # By the largest bound alone, kernels that move the same bytes are equal, however they move them. The
    # norm of order 4 ranks them by the other bounds, and ranks the kernels of benchmarks/measurements as
    # before.
    plain = total(rows, gpu, transfers)
    more = sum(_hindrance(modelled_cost(row, gpu).bounds_us.values()) * row.launches for row in rows)
    return plain.model_copy(update={"us": plain.us + more})


def _hindrance(bounds: Collection[float]) -> float:
    """Return the time that the smaller bounds add."""
    most = max(bounds)
    norm: float = sum((bound / most) ** NORM for bound in bounds) ** (1 / NORM) if most else 1.0
    return most * (norm - 1.0)


def _matched(facts: Sequence[Facts]) -> list[tuple[LaunchRow, ...]] | None:
    """Return each kernel's rows, or None if kernels differ."""
    merged = [_merged(fact.kernels) for fact in facts]
    names = {tuple(rows) for rows in merged}
    return list(zip(*(rows.values() for rows in merged), strict=True)) if len(names) == 1 else None


def _merged(rows: Sequence[LaunchRow]) -> dict[tuple[str, tuple[int, int, int], bool], LaunchRow]:
    """Return rows merged by kernel and block."""
    found: dict[tuple[str, tuple[int, int, int], bool], LaunchRow] = {}
    for row in rows:
        key = (row.kernel, row.block, row.in_graph)
        found[key] = _added(found[key], row) if key in found else row
    return dict(sorted(found.items()))


def _added(one: LaunchRow, other: LaunchRow) -> LaunchRow:
    """Return the sum of two rows."""
    launches = one.launches + other.launches
    blocks = (one.blocks * one.launches + other.blocks * other.launches) / launches
    counters = {name: getattr(one.counters, name) + getattr(other.counters, name) for name in Counters.model_fields}
    classes = {name: one.classes.get(name, 0) + other.classes.get(name, 0) for name in {*one.classes, *other.classes}}
    update = {"launches": launches, "grid": (round(blocks), 1, 1), "counters": Counters(**counters), "classes": classes}
    return one.model_copy(update=update)


def _grown(one: Probe, rows: Sequence[LaunchRow]) -> LaunchRow:
    """Return one launch extrapolated to the full size."""

    def grow(values: Sequence[float]) -> int:
        """Return a counter extrapolated to the full size."""
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
    """Return a launch with more equal blocks."""
    counts = {name: round(value * growth) for name, value in row.counters.model_dump().items()}
    counts["longest_thread"] = row.counters.longest_thread
    classes = {name: round(count * growth) for name, count in row.classes.items()}
    grid = (round(row.blocks * growth), 1, 1)
    return row.model_copy(update={"grid": grid, "counters": Counters(**counts), "classes": classes})


def _longest(row: LaunchRow, instructions: int, blocks: int) -> int:
    """Return the longest path of an extrapolated launch."""
    # In the same ratio to the mean as in the largest sibling. Extrapolated alone it would follow a loop
    # that a host bounds at some size.
    mean = row.counters.warp_instructions / row.blocks
    return round(row.counters.longest_thread / mean * instructions / blocks) if mean else 0
