"""The plan of calls: everything that must be in it is, and it follows from the secret seed alone."""

from collections import Counter
from itertools import groupby

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation.check import PlannedCall, PlanScope, plan_steps
from warpsmith.evaluation.check.plan import TWISTS, case_work
from warpsmith.records import Direction, Dtype, Family, Group, Precision, Task, Twist
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import folders, suite_folder

TASKS = [read_task(folder) for folder in folders().values()]
LINEAR = read_task(suite_folder("linear"))
BOUND = PlanScope(heldout_work=4e6)


def steps(
    task: Task = LINEAR, seed: int = 1, scope: PlanScope = BOUND, direction: Direction = Direction.FORWARD
) -> tuple[PlannedCall, ...]:
    return plan_steps(task, direction, scope, seed)


def test_a_seed_stands_for_one_plan_and_another_for_another() -> None:
    assert steps(seed=1) == steps(seed=1)
    first, second = steps(seed=1), steps(seed=2)
    assert [step.trial.case.name for step in first] != [step.trial.case.name for step in second]
    assert not {step.trial.seed for step in first} & {step.trial.seed for step in second}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("seed", [3, 4])
def test_every_case_init_and_family_is_called(task: Task, seed: int) -> None:
    found = steps(task, seed)
    for case in task.group(Group.SMOKE):
        mine = [step.trial for step in found if step.trial.case == case]
        assert {trial.family for trial in mine} >= set(case.families)
        assert {trial.init for trial in mine} >= set(case.inits)


@pytest.mark.parametrize("direction", list(Direction))
def test_what_a_kernel_may_remember_is_tried_in_one_slot(direction: Direction) -> None:
    found = steps(direction=direction)
    again = [step for step in found if step.again]
    assert len(again) == 2
    for last in again:
        untwisted = [s for s in found if s.trial.model_copy(update={"twist": Twist.NONE}) == last.trial]
        assert untwisted[0].trial.twist is Twist.NONE and untwisted[-1] == last
        assert {s.trial.twist for s in untwisted} == {Twist.NONE, *TWISTS[direction]}
        assert {s.slot for s in untwisted} == {last.slot}


def test_between_a_call_and_its_repetition_another_case_may_stand() -> None:
    names = [step.trial.case.name for seed in range(8) for step in steps(seed=seed)]
    assert len(set(names)) == len(LINEAR.group(Group.SMOKE)) + 5 + 3  # held-out shapes and long sums


@pytest.mark.parametrize("seed", range(5))
def test_held_out_shapes_are_drawn_and_bounded(seed: int) -> None:
    found = {step.trial.case.name: step.trial.case for step in steps(seed=seed)}
    drawn = [case for case in found.values() if case.group is Group.HELDOUT]
    assert sorted(case.name.partition("_")[0] for case in drawn) == ["heldout"] * 5 + ["long"] * 3
    assert all(case_work(LINEAR, Direction.FORWARD, case) <= 4e6 for case in drawn)


def test_held_out_shapes_are_as_large_as_the_ranges_without_a_bound() -> None:
    cases = [step.trial.case for seed in range(20) for step in steps(seed=seed, scope=PlanScope())]
    assert max(case_work(LINEAR, Direction.FORWARD, case) for case in cases) > 4e7


@pytest.mark.parametrize("direction", list(Direction))
def test_several_inputs_are_scaled_past_float16_where_tf32_is_forbidden(direction: Direction) -> None:
    for task in TASKS:
        scaled = [step.trial for step in steps(task, direction=direction) if step.trial.twist is Twist.SCALED]
        wide = [case for case in task.group(Group.SMOKE) if case.dtype is Dtype.FLOAT32]
        assert [one.case for one in scaled] in ([], wide, wide[::-1]) and len(scaled) in (0, 2)
        assert bool(scaled) == (task.name in ("attention", "rope", "swiglu"))


def test_the_precision_gate_stands_where_tf32_is_forbidden() -> None:
    def gate(task: Task) -> int:
        scope = PlanScope(groups=(Group.TIMING,), remembered=0)  # whose cases draw normal inputs only
        found = plan_steps(task, Direction.FORWARD, scope, 1)
        return sum(step.trial.family is Family.ONE_HOT for step in found)

    assert gate(LINEAR) == 1
    assert gate(LINEAR.model_copy(update={"precision": Precision(tf32=True)})) == 0
    hot = [s.trial.case.dtype for s in steps() if s.trial.family is Family.ONE_HOT]
    assert Dtype.FLOAT32 in hot


def test_one_shape_is_called_many_times_in_a_row() -> None:
    names = [step.trial.case.name for step in steps()]
    longest = max(len(list(group)) for _, group in groupby(names))
    assert longest >= 104
    heavy = [step.trial.case.name for step in steps(scope=PlanScope(groups=(Group.TIMING,)))]
    assert 8 <= max(len(list(group)) for _, group in groupby(heavy)) < 104


def test_a_product_takes_two_tensors() -> None:
    assert LINEAR.forward.is_product
    assert not read_task(suite_folder("softmax")).forward.is_product


def test_a_group_without_cases_is_refused() -> None:
    bare = LINEAR.model_copy(update={"cases": LINEAR.group(Group.SMOKE)})
    with pytest.raises(UsageError, match="no case in dev; it has smoke"):
        plan_steps(bare, Direction.FORWARD, PlanScope(groups=(Group.DEV,)), 1)


def test_long_sums_of_16_bit_rows_are_called_several_times() -> None:
    for task, narrow in (("softmax", 5), ("linear", 1)):
        trials = [step.trial for step in steps(read_task(suite_folder(task)))]
        long = Counter(trial.case.dtype for trial in trials if trial.case.name.startswith("long_"))
        assert long and all(count == (narrow if dtype.bytes == 2 else 1) for dtype, count in long.items())
