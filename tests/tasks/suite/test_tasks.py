"""Every task of the suite reads, runs in both directions and agrees with its own float64 truth."""

from collections.abc import Iterator

import pytest
import torch

from warpsmith.base import evaluate_formula
from warpsmith.evaluation.check.compare import Budget, compare
from warpsmith.evaluation.check.terms import offset_ratio
from warpsmith.records import Direction, Dtype, Group, Role, Task, Trial
from warpsmith.tasks.inputs.values import TORCH, tensors
from warpsmith.tasks.reference.program import Problem, problem
from warpsmith.tasks.suite import suite, suite_program

NAMES = [
    "attention",
    "conv_relu_pool",
    "cross_entropy",
    "group_norm_silu",
    "layernorm",
    "linear",
    "linear_relu",
    "llama_ffw",
    "llama_rmsnorm",
    "max_pool",
    "resnet_block",
    "rope",
    "softmax",
    "swiglu",
    "unet_conv2d",
    "unet_linear",
]
HALVES = {Dtype.FLOAT16, Dtype.BFLOAT16}
SINGLE_ONLY = {"cross_entropy", "conv_relu_pool", "linear_relu", "max_pool", "resnet_block"}
LIBRARIES = {
    "linear": ("cublas", "cublaslt"),
    "unet_linear": ("cublas", "cublaslt"),
    "llama_ffw": ("cublas", "cublaslt"),
    "unet_conv2d": ("cublas", "cublaslt", "cudnn"),
    "resnet_block": ("cublas", "cublaslt", "cudnn"),
}


def trials(task: Task, group: Group) -> Iterator[Trial]:
    """Every case of a group with every init and family of it, each with its own seed."""
    for case in task.group(group):
        for init in case.inits:
            for family in case.families:
                yield Trial(case=case, init=init, family=family, seed=len(case.name) + 17)


def named(name: str) -> Task:
    return suite_program(name).task


def test_the_suite_holds_sixteen_tasks_with_both_directions() -> None:
    tasks = suite()
    assert [task.name for task in tasks] == NAMES
    assert all(task.directions == tuple(Direction) for task in tasks)


@pytest.mark.parametrize("name", NAMES)
def test_every_smoke_trial_agrees_with_float64_within_the_task_s_own_tolerance(name: str) -> None:
    program = suite_program(name)
    for direction in Direction:
        signature = program.task.signature(direction)
        for trial in trials(program.task, Group.SMOKE):
            found = problem(program, direction, trial)
            assert len(found.arguments) == len(signature.arguments)
            assert len(found.expected) == len(signature.results)
            assert all(part.is_contiguous() for part in tensors(found.arguments)), "kernels may assume dense inputs"
            label = (direction, trial.case.name, trial.init, trial.family)
            assert (
                _largest_share(
                    Budget.of(program.task.tolerance.of(direction), trial.case, lift=offset_ratio(trial)), found
                )
                <= 1
            ), label


def _largest_share(budget: Budget, found: Problem) -> float:
    """The norm of torch's own error over the task's floor: the floor alone must admit torch."""
    floor = budget.floor(found.native[0])
    pairs = zip(found.native, found.expected, strict=True)
    return max(float((a.double() - e).norm() / (floor * e.norm() + 1e-300)) for a, e in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_and_a_zero_result_fail(name: str) -> None:
    program = suite_program(name)
    for direction in Direction:
        signature = program.task.signature(direction)
        for trial in trials(program.task, Group.SMOKE):
            found = problem(program, direction, trial)
            for guess in (_filled(found, 0.0), _filled(found, None)):
                if all(part.numel() == 1 for part in found.expected):
                    continue  # a scalar is its own mean; other seeds tell it apart, below
                verdict = compare(
                    guess,
                    found,
                    signature.results,
                    Budget.of(program.task.tolerance.of(direction), trial.case, lift=offset_ratio(trial)),
                )
                assert not verdict.passed, (direction, trial.case.name, trial.family)


def _filled(found: Problem, value: float | None) -> list[torch.Tensor]:
    """Results of the right shape that hold one value: the one given, or the mean of the truth."""
    pairs = zip(found.native, found.expected, strict=True)
    return [torch.full_like(a, float(e.mean()) if value is None else value) for a, e in pairs]


def test_the_mean_loss_differs_from_seed_to_seed_by_more_than_its_tolerance() -> None:
    program = suite_program("cross_entropy")
    for case in program.task.group(Group.SMOKE) + program.task.group(Group.DEV):
        losses = [problem(program, Direction.FORWARD, Trial(case=case, seed=seed)).expected[0] for seed in range(4)]
        spread = float(torch.stack(losses).std() / torch.stack(losses).mean())
        assert spread > 100 * program.task.tolerance.of(Direction.FORWARD).norm_floor[case.dtype], case.name


@pytest.mark.parametrize("name", NAMES)
def test_arguments_have_the_case_s_element_type_and_results_too(name: str) -> None:
    program = suite_program(name)
    for case in program.task.group(Group.SMOKE):
        found = problem(program, Direction.BACKWARD, Trial(case=case))
        wanted = TORCH[case.dtype]
        given = zip(program.task.signature(Direction.BACKWARD).arguments, found.arguments, strict=True)
        for spec, value in given:
            if isinstance(value, torch.Tensor) and spec.role in (Role.INPUT, Role.PARAMETER, Role.GRAD):
                assert value.dtype == wanted, spec.name
        assert {part.dtype for part in found.native} == {wanted}
        assert {part.dtype for part in found.expected} == {torch.float64}


@pytest.mark.parametrize("name", NAMES)
def test_backward_takes_grads_then_arguments_then_saved(name: str) -> None:
    task = named(name)
    backward = task.signature(Direction.BACKWARD)
    roles = [spec.role for spec in backward.arguments]
    grads, kept = roles.count(Role.GRAD), roles.count(Role.SAVED)
    assert roles[:grads] == [Role.GRAD] * grads and roles[len(roles) - kept :] == [Role.SAVED] * kept
    assert backward.arguments[grads : len(roles) - kept] == task.forward.arguments
    assert [spec.name for spec in backward.arguments[:grads]] == [f"grad_{out}" for out in task.forward.results]
    assert len({spec.name for spec in backward.arguments}) == len(backward.arguments)


@pytest.mark.parametrize("name", NAMES)
def test_the_groups_element_types_and_libraries_are_those_of_the_design(name: str) -> None:
    task = named(name)
    assert {case.group for case in task.cases} == {Group.SMOKE, Group.DEV, Group.TIMING}
    assert len(task.group(Group.TIMING)) >= 4 and len(task.group(Group.DEV)) >= 2
    used = {case.dtype for case in task.cases}
    assert Dtype.FLOAT32 in used
    assert bool(used & HALVES) == (name not in SINGLE_ONLY)
    assert {case.dtype for case in task.group(Group.SMOKE)} == used == set(task.tolerance.norm_floor)
    assert task.libraries == LIBRARIES.get(name, ())
    assert not task.precision.tf32 and not task.precision.fast_math


@pytest.mark.parametrize("name", NAMES)
def test_several_families_everywhere_and_several_inits_where_there_are_parameters(name: str) -> None:
    task = named(name)
    smoke = task.group(Group.SMOKE)
    assert len({family for case in smoke for family in case.families}) >= 4
    has_parameters = any(spec.role is Role.PARAMETER for spec in task.forward.arguments)
    assert (len({init for case in smoke for init in case.inits}) >= 2) == has_parameters


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_positive_and_bytes_never_below_the_results(name: str) -> None:
    task = named(name)
    for case in task.cases:
        names = {**case.axes, "size": case.dtype.bytes}
        for direction in Direction:
            cost = task.cost[direction]
            assert evaluate_formula(cost.flops, names) > 0 and evaluate_formula(cost.bytes, names) > 0


@pytest.mark.parametrize("name", NAMES)
def test_bytes_count_no_more_than_every_argument_read_and_every_result_written(name: str) -> None:
    """The formula is a floor of what a kernel must move, so counting a tensor that need not be read is an error."""
    program = suite_program(name)
    for case in program.task.group(Group.SMOKE):
        for direction in Direction:
            found = problem(program, direction, Trial(case=case))
            moved = sum(part.numel() * part.element_size() for part in (*tensors(found.arguments), *found.native))
            written = sum(part.numel() * part.element_size() for part in found.native)
            counted = evaluate_formula(program.task.cost[direction].bytes, {**case.axes, "size": case.dtype.bytes})
            assert written < counted <= moved, (direction, case.name, counted, moved)
