"""Problems: the float64 truth, torch's own result, and backward by autograd, whatever the kinds of the arguments."""

from collections.abc import Sequence
from math import log2

import pytest
import torch
from torch import Tensor

from warpsmith.records import Case, Direction, Dtype, Group, Trial
from warpsmith.tasks.inputs.values import mapped, tensors, widened
from warpsmith.tasks.reference.program import SIZES, differentiable, gradients, problem, upstream
from warpsmith.tasks.suite import suite_program

LAYERNORM = suite_program("layernorm")
TRIAL = Trial(case=Case(name="c", group=Group.SMOKE, axes={"rows": 3, "cols": 16}, dtype=Dtype.FLOAT32), seed=5)


def test_forward_truth_is_float64() -> None:
    found = problem(LAYERNORM, Direction.FORWARD, TRIAL)
    assert found.expected[0].dtype == torch.float64
    assert found.native[0].dtype == torch.float32
    assert torch.allclose(found.native[0].double(), found.expected[0], atol=1e-5)


def test_backward_arguments_follow_the_contract() -> None:
    found = problem(LAYERNORM, Direction.BACKWARD, TRIAL)
    assert LAYERNORM.task.backward is not None
    assert len(found.arguments) == len(LAYERNORM.task.backward.arguments)
    assert [tuple(t.shape) for t in found.expected] == [(3, 16), (16,), (16,)]


def test_gradients_agree_with_finite_differences() -> None:
    arguments = widened(LAYERNORM.arguments(TRIAL))
    grads = [torch.ones(3, 16, dtype=torch.float64).cumsum(-1)]
    found = gradients(LAYERNORM.forward, LAYERNORM.task.forward, arguments, grads)[1]

    def value(weight: Tensor) -> Tensor:
        return (LAYERNORM.forward((arguments[0], weight, *arguments[2:]))[0] * grads[0]).sum()

    weight = arguments[1]
    assert isinstance(weight, Tensor)
    step = torch.zeros_like(weight)
    step[4] = 1e-6
    assert abs(float((value(weight + step) - value(weight - step)) / 2e-6 - found[4])) < 1e-4


def test_a_problem_repeats_for_its_seed() -> None:
    one, two = (problem(LAYERNORM, Direction.BACKWARD, TRIAL) for _ in range(2))
    pairs = zip(tensors(one.arguments), tensors(two.arguments), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 24), (torch.float16, 11), (torch.bfloat16, 8)])
def test_upstream_gradients_have_all_the_bits_of_their_type(dtype: torch.dtype, bits: int) -> None:
    """A kernel that rounds only its upstream gradient to fewer bits must show."""
    seed = next(seed for seed in range(99) if 0.5 < float(upstream([torch.zeros(500)], seed)[0].max()) < 1)
    found = upstream([torch.zeros(500, dtype=dtype)], seed)[0].double() * 2**bits
    assert torch.equal(found, found.round())
    assert float((found % 2).mean()) > 0.4  # half of them use the last bit
    assert -(2**bits) <= float(found.min()) and float(found.max()) < 2**bits


def test_upstream_gradients_have_no_size_that_a_kernel_could_count_on() -> None:
    for dtype, sizes in ((torch.float32, len(SIZES)), (torch.bfloat16, len(SIZES)), (torch.float16, 1)):
        largest = [float(upstream([torch.zeros(500, dtype=dtype)], seed)[0].abs().max()) for seed in range(30)]
        assert len({round(log2(one) / 6) for one in largest}) == sizes
        assert sizes == 1 or (max(largest) > 65504 and min(largest) < 2.0**-24), "past float16 at either end"


def test_upstream_gradients_lie_around_zero_or_on_one_side_of_it() -> None:
    """Sums of those around zero all but vanish, and a kernel could leave them out."""
    for dtype, sides in ((torch.float32, {-1, 0, 1}), (torch.bfloat16, {-1, 0, 1}), (torch.float16, {0})):
        drawn = [upstream([torch.zeros(500, dtype=dtype)], seed)[0].double() for seed in range(30)]
        assert {round(2 * float(one.mean() / one.abs().max())) for one in drawn} == sides
        assert all(float(one.std()) > 0.2 * float(one.abs().max()) for one in drawn)


def test_values_reach_into_tuples() -> None:
    pair = (torch.ones(2), torch.ones(2, dtype=torch.int64))
    values: Sequence[object] = (pair, None, 3, 2.5, [1, 2])
    changed = mapped(values, lambda t: t * 2)  # type: ignore[arg-type]
    assert [float(t[0]) for t in tensors(changed)] == [2.0, 2.0]
    assert changed[1:] == (None, 3, 2.5, [1, 2])
    assert [t.dtype for t in tensors(widened(changed))] == [torch.float64, torch.int64]


def test_no_gradient_flows_to_numbers() -> None:
    assert len(differentiable(LAYERNORM.task.forward, LAYERNORM.arguments(TRIAL))) == 3
