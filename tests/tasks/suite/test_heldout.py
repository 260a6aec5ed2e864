"""Held-out ranges of the suite: formulas hold, drawn shapes run in both directions, ends are odd."""

import random

import pytest
import torch

from warpsmith.base import evaluate_formula
from warpsmith.records import Case, Direction, Group, Heldout, Trial
from warpsmith.tasks.inputs import FAMILIES
from warpsmith.tasks.reference.program import problem
from warpsmith.tasks.suite import folders, suite_program

FLOPS, BYTES = 3e8, 1e7  # what a shape drawn for a test may cost


def drawn(heldout: Heldout, source: random.Random) -> dict[str, int]:
    """Sizes from the ranges that satisfy every requirement."""
    for _ in range(10_000):
        sizes = {
            name: reach.multiple * source.randint(-(-reach.low // reach.multiple), reach.high // reach.multiple)
            for name, reach in heldout.axes.items()
        }
        if all(evaluate_formula(formula, sizes) for formula in heldout.require):
            return sizes
    raise AssertionError(f"no shape satisfies {heldout.require}")


@pytest.mark.parametrize("name", folders())
def test_ranges_stay_within_the_axes_and_name_all_of_them(name: str) -> None:
    task = suite_program(name).task
    assert task.heldout is not None
    limits = {axis.name: axis.maximum for axis in task.axes}
    assert set(task.heldout.axes) == set(limits)
    assert all(1 <= reach.low < reach.high <= limits[axis] for axis, reach in task.heldout.axes.items())
    assert set(task.heldout.dtypes) <= set(task.tolerance.norm_floor)
    assert any(reach.low % 2 or reach.high % 2 for reach in task.heldout.axes.values())


@pytest.mark.parametrize("name", folders())
def test_drawn_shapes_run_in_both_directions(name: str) -> None:
    program, source = suite_program(name), random.Random(11)
    heldout = program.task.heldout
    assert heldout is not None
    ran = 0
    while ran < 3:
        sizes, dtype = drawn(heldout, source), source.choice(heldout.dtypes)
        family = source.choice([one for one in heldout.families if FAMILIES[one].fits(dtype)])
        case = Case(name="drawn", group=Group.HELDOUT, axes=sizes, dtype=dtype)
        cost, names = program.task.cost[Direction.BACKWARD], {**sizes, "size": case.dtype.bytes}
        if evaluate_formula(cost.flops, names) > FLOPS or evaluate_formula(cost.bytes, names) > BYTES:
            continue
        for direction in Direction:
            found = problem(program, direction, Trial(case=case, family=family, init=heldout.inits[0], seed=ran))
            assert all(bool(torch.isfinite(part).all()) for part in (*found.native, *found.expected)), (sizes, family)
        ran += 1


@pytest.mark.parametrize("name", folders())
def test_the_smallest_shape_runs(name: str) -> None:
    program = suite_program(name)
    heldout = program.task.heldout
    assert heldout is not None
    sizes = {axis: reach.low for axis, reach in heldout.axes.items()}
    if not all(evaluate_formula(formula, sizes) for formula in heldout.require):
        sizes = drawn(heldout, random.Random(1))
    case = Case(name="least", group=Group.HELDOUT, axes=sizes, dtype=heldout.dtypes[0])
    for direction in Direction:
        found = problem(program, direction, Trial(case=case, seed=2))
        assert all(bool(torch.isfinite(part).all()) for part in found.expected)
