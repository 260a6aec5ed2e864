"""Held-out cases."""

from math import gcd, prod
from random import Random

import pytest

from warpsmith.base import UsageError, evaluate_formula
from warpsmith.records import Dtype, Group, Heldout, Reach, Task
from warpsmith.tasks.inputs.heldout import (
    KIND,
    NEAR,
    NEAR_CASES,
    NEAR_EVEN,
    PICKS,
    TILES,
    heldout_cases,
    long_cases,
    near_cases,
)
from warpsmith.tasks.suite import suite, suite_program


def with_ranges(**changes: object) -> Task:
    reach = {"rows": Reach(low=1, high=4096), "cols": Reach(low=8, high=1000, multiple=4)}
    heldout = Heldout(axes=reach, dtypes=(Dtype.FLOAT32, Dtype.BFLOAT16), count=10).model_copy(update=changes)
    return suite()[0].model_copy(update={"heldout": heldout})


def is_prime(n: int) -> bool:
    return n > 1 and all(n % part for part in range(2, n))


def test_a_seed_stands_for_its_cases_and_another_for_others() -> None:
    task = with_ranges()
    assert heldout_cases(task, 5) == heldout_cases(task, 5)
    assert heldout_cases(task, 5) != heldout_cases(task, 6)


def test_sizes_are_prime_odd_and_one() -> None:
    cases = [case for seed in range(20) for case in heldout_cases(with_ranges(), seed)]
    rows = [case.axes["rows"] for case in cases]
    assert {case.group for case in cases} == {Group.HELDOUT}
    assert any(is_prime(row) for row in rows)
    assert 1 in rows
    assert sum(row % 2 for row in rows) > len(rows) / 3
    assert all(1 <= row <= 4096 for row in rows)
    assert all(8 <= case.axes["cols"] <= 1000 and case.axes["cols"] % 4 == 0 for case in cases)
    assert max(rows) > 1000  # and large ones among them


def test_sizes_are_multiples_of_either_tile_in_turn() -> None:
    small, large = TILES
    drawn = [heldout_cases(with_ranges(), seed) for seed in range(20)]
    tiled = [(cases[3].axes["rows"], cases[4].axes["rows"]) for cases in drawn]
    assert all(one % small == 0 and one % large and two % large == 0 for one, two in tiled)
    assert len(set(tiled)) > 10


@pytest.mark.parametrize("place", [3, 4])
def test_a_range_too_short_for_a_tile_has_the_smaller_one_or_any_number(place: int) -> None:
    pick, source = PICKS[place], Random(1)
    assert {pick(source, 1, 67) for _ in range(100)} <= {16, 32, 48, *([] if place == 3 else [64])}
    assert {pick(source, 1, KIND) for _ in range(200)} > {1, 2, 3}
    assert {pick(source, 64, 67) for _ in range(10)} == {64}


@pytest.mark.parametrize("task", suite(), ids=lambda task: task.name)
def test_every_suite_task_has_a_case_of_multiples(task: Task) -> None:
    assert task.heldout is not None
    for seed in range(5):
        for case in heldout_cases(task, seed)[3:]:
            reaches = task.heldout.axes.items()
            tiled = [case.axes[name] % TILES[0] == 0 for name, one in reaches if one.high // one.multiple > KIND]
            assert tiled and all(tiled)


def test_every_element_type_has_its_turn() -> None:
    assert {case.dtype for case in heldout_cases(with_ranges(), 1)} == {Dtype.FLOAT32, Dtype.BFLOAT16}


def test_formulas_are_respected() -> None:
    task = with_ranges(require=("rows % 3 == 0", "cols > rows"))
    for case in heldout_cases(task, 3):
        assert all(evaluate_formula(formula, case.axes) for formula in ("rows % 3 == 0", "cols > rows"))


def test_formulas_that_nothing_satisfies_are_told() -> None:
    with pytest.raises(UsageError, match=r"in 2000 draws satisfy rows > 5000\. Widen"):
        heldout_cases(with_ranges(require=("rows > 5000",)), 1)


def test_a_range_without_a_multiple_is_told() -> None:
    with pytest.raises(UsageError, match="No multiple of 64 lies from 1 to 63"):
        heldout_cases(with_ranges(axes={"rows": Reach(low=1, high=63, multiple=64)}), 1)


def test_cases_differ_where_the_ranges_leave_a_choice() -> None:
    axes = [tuple(case.axes.items()) for case in heldout_cases(with_ranges(), 9)]
    assert len(set(axes)) == len(axes)
    single = heldout_cases(with_ranges(axes={"rows": Reach(low=7, high=7)}), 9)
    assert {case.axes["rows"] for case in single} == {7}


@pytest.mark.parametrize("task", suite(), ids=lambda task: task.name)
def test_every_suite_task_gives_held_out_cases(task: Task) -> None:
    assert task.heldout is not None
    for seed in range(5):
        assert len(heldout_cases(task, seed)) == task.heldout.count


def test_a_task_without_ranges_has_none() -> None:
    assert heldout_cases(suite()[0].model_copy(update={"heldout": None}), 1) == ()


def test_long_sums_are_in_sixteen_bits_with_one_long_axis() -> None:
    task = suite_program("linear").task
    for seed in range(20):
        cases = long_cases(task, seed)
        assert [case.name for case in cases] and len(cases) <= 3
        assert cases == long_cases(task, seed)
        for case in cases:
            axis = case.name.removeprefix("long_")
            assert case.dtype.bytes == 2
            assert case.axes[axis] >= task.heldout.axes[axis].high * 3 // 4
            assert all(size <= 8 for name, size in case.axes.items() if name != axis)


def test_a_task_in_float32_alone_has_no_long_sums() -> None:
    assert long_cases(suite_program("linear_relu").task, 1) == ()


@pytest.mark.parametrize("task", suite(), ids=lambda task: task.name)
def test_near_cases_are_timing_cases_of_other_sizes(task: Task) -> None:
    assert task.heldout is not None
    for seed in range(20):
        cases = near_cases(task, seed)
        assert len(cases) == NEAR_CASES and cases == near_cases(task, seed)
        for case in cases:
            like = next(one for one in task.group(Group.TIMING) if case.name == f"{NEAR}{one.name}")
            assert (case.group, case.dtype) == (Group.HELDOUT, like.dtype) and case.axes != like.axes
            assert all(evaluate_formula(formula, case.axes) for formula in task.heldout.require)
            assert 0.5 < prod(case.axes.values()) / prod(like.axes.values()) < 1
            for name, size in like.axes.items():
                now = case.axes[name]
                assert now == size if size <= KIND else now <= size
                assert now % gcd(size, NEAR_EVEN) == 0


def test_near_cases_are_another_seed_s_others() -> None:
    assert len({tuple(case.text() for case in near_cases(suite()[0], seed)) for seed in range(10)}) > 5


def test_a_task_without_ranges_or_whose_formulas_refuse_has_no_near_cases() -> None:
    assert near_cases(suite()[0].model_copy(update={"heldout": None}), 1) == ()
    assert near_cases(with_ranges(require=("rows > 1000000000",)), 1) == ()


def test_near_cases_stay_in_the_task_s_ranges_and_below_the_timing_case() -> None:
    task = suite_program("softmax").task
    like = max(task.group(Group.TIMING), key=lambda case: prod(case.axes.values()))
    rows, cols = Reach(low=1, high=1 << 20), like.axes["cols"]
    for reach in (Reach(low=cols, high=1 << 20), Reach(low=1, high=1 << 20, multiple=2 * cols)):
        heldout = Heldout(axes={"rows": rows, "cols": reach}, dtypes=(Dtype.FLOAT32,))
        narrow = task.model_copy(update={"heldout": heldout, "cases": (like,)})
        found = [case.axes for seed in range(20) for case in near_cases(narrow, seed)]
        assert found and all(axes["cols"] == cols and axes["rows"] < like.axes["rows"] for axes in found)
