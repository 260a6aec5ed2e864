"""What is easy is held to what roundings make; what is hard has the task's own bounds."""

from math import inf

import pytest
import torch
from torch import Tensor

from warpsmith.evaluation.check.compare import EASY_COUNT, Budget, compare
from warpsmith.evaluation.check.terms import EASY, EASY_PRODUCT, normal_norm_limit
from warpsmith.records import Case, Direction, Dtype, Family, Group, Origin, Task, Trial, Twist
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite_program

NAMES = ("attention", "linear", "resnet_block", "swiglu")
ATTENTION, LINEAR, RESNET, SWIGLU = (suite_program(name).task for name in NAMES)
NARROW = [(Dtype.BFLOAT16, torch.bfloat16), (Dtype.FLOAT16, torch.float16)]


def trial(task: Task, dtype: Dtype = Dtype.BFLOAT16, **given: object) -> Trial:
    case = task.group(Group.SMOKE)[0].model_copy(update={"dtype": dtype})
    return Trial.model_validate({"case": case} | given)


@pytest.mark.parametrize("direction", list(Direction))
def test_normal_inputs_of_our_own_tasks_are_easy_and_no_others(direction: Direction) -> None:
    foreign = LINEAR.model_copy(update={"origin": Origin.MODULE})
    assert normal_norm_limit(LINEAR, direction, trial(LINEAR)) == EASY[Dtype.BFLOAT16]
    assert normal_norm_limit(foreign, direction, trial(LINEAR)) == inf, "its inputs are drawn as it likes"
    assert normal_norm_limit(LINEAR, direction, trial(LINEAR, family=Family.HUGE)) == inf
    assert normal_norm_limit(LINEAR, direction, trial(LINEAR, twist=Twist.NUDGED)) == inf
    assert normal_norm_limit(SWIGLU, direction, trial(SWIGLU)) == inf, "it sums nothing"
    drawn = trial(LINEAR).case.model_copy(update={"group": Group.HELDOUT})
    assert normal_norm_limit(LINEAR, direction, trial(LINEAR, case=drawn)) == inf, (
        "a norm of one row may be two roundings"
    )


def test_float32_has_a_bound_where_inputs_alone_are_multiplied() -> None:
    forward, backward = Direction.FORWARD, Direction.BACKWARD
    for twist in (Twist.NONE, Twist.SCALED):
        assert normal_norm_limit(ATTENTION, forward, trial(ATTENTION, Dtype.FLOAT32, twist=twist)) == EASY_PRODUCT
    assert normal_norm_limit(ATTENTION, backward, trial(ATTENTION, Dtype.FLOAT32)) == inf
    assert normal_norm_limit(RESNET, forward, trial(RESNET, Dtype.FLOAT32)) == inf, "a transform may be off by more"


def in_steps(x: Tensor) -> Tensor:
    """Rounded to 127 steps of the largest of 32 terms, as products of 8-bit integers are."""
    blocks = x.reshape(-1, 32, x.shape[-1])
    step = blocks.abs().amax(1, keepdim=True) / 127
    return ((blocks / step).round() * step).reshape(x.shape)


@pytest.mark.parametrize(("dtype", "element"), NARROW)
def test_roundings_pass_where_it_is_easy_and_integers_of_8_bits_do_not(dtype: Dtype, element: torch.dtype) -> None:
    source = torch.Generator().manual_seed(1)
    x, w = (torch.randn(256, 64, generator=source).to(element).float() for _ in range(2))
    exact = x.double().T @ w.double()
    problem = Problem((), (exact.to(element),), (exact,))
    case = Case(name="c", group=Group.SMOKE, axes={"k": 256}, dtype=dtype)
    budget = Budget.of(ATTENTION.tolerance, case.model_copy(update={"axes": {"seq": 256, "dim": 64}}), easy=EASY[dtype])
    twice = (x.T @ w + x.T @ w * torch.finfo(element).eps / 4).to(element)  # a step before it was rounded, too
    assert compare([twice], problem, ["out"], budget).passed
    coarse = (in_steps(x).T @ in_steps(w)).to(element)
    assert not compare([coarse], problem, ["out"], budget).passed
    few = Problem((), (problem.native[0][:7, :9],), (exact[:7, :9],))
    assert few.native[0].numel() < EASY_COUNT
    if dtype is Dtype.BFLOAT16:  # of few elements the task's floor holds, and it is wide
        assert compare([coarse[:7, :9]], few, ["out"], budget).passed
