"""What a task saves is enough: the gradient by formula, from backward's arguments alone, is autograd's."""

from collections.abc import Callable
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.records import Direction, Dtype, Group, Trial
from warpsmith.tasks.reference.program import Problem, problem
from warpsmith.tasks.suite import suite_program

CLOSE = 2e-5  # saved statistics are float32; the formulas run in float64


def layernorm(g: Tensor, x: Tensor, w: Tensor, b: Tensor, eps: float, mean: Tensor, rstd: Tensor) -> list[Tensor]:
    hat = (x - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)
    inner = g * w
    spread = inner - inner.mean(-1, keepdim=True) - hat * (inner * hat).mean(-1, keepdim=True)
    return [spread * rstd.unsqueeze(-1), (g * hat).sum(0), g.sum(0)]


def llama_rmsnorm(g: Tensor, x: Tensor, w: Tensor, eps: float, rstd: Tensor) -> list[Tensor]:
    hat = x * rstd.unsqueeze(-1)
    inner = g * w
    return [(inner - hat * (inner * hat).mean(-1, keepdim=True)) * rstd.unsqueeze(-1), (g * hat).sum(0)]


def group_norm_silu(
    g: Tensor, x: Tensor, w: Tensor, b: Tensor, groups: int, eps: float, mean: Tensor, rstd: Tensor
) -> list[Tensor]:
    shape = (x.shape[0], groups, -1)
    hat = ((x.reshape(shape) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)).reshape(x.shape)
    normal = hat * w[:, None, None] + b[:, None, None]
    gate = normal.sigmoid()
    g = g * gate * (1 + normal * (1 - gate))
    inner, flat = (g * w[:, None, None]).reshape(shape), hat.reshape(shape)
    spread = inner - inner.mean(-1, keepdim=True) - flat * (inner * flat).mean(-1, keepdim=True)
    grad_x = (spread * rstd.unsqueeze(-1)).reshape(x.shape)
    return [grad_x, (g * hat).sum((0, 2, 3)), g.sum((0, 2, 3))]


def softmax(g: Tensor, x: Tensor, out: Tensor) -> list[Tensor]:
    return [out * (g - (g * out).sum(-1, keepdim=True))]


def cross_entropy(g: Tensor, logits: Tensor, targets: Tensor, lse: Tensor) -> list[Tensor]:
    share = (logits - lse.unsqueeze(-1)).exp() - F.one_hot(targets, logits.shape[-1])
    return [g * share / logits.shape[0]]


def attention(g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor) -> list[Tensor]:
    scale = 1 / sqrt(q.shape[-1])
    share = (q @ k.transpose(-1, -2) * scale - lse.unsqueeze(-1)).exp().tril()
    inner = share * (g @ v.transpose(-1, -2) - (g * out).sum(-1, keepdim=True)) * scale
    return [inner @ k, inner.transpose(-1, -2) @ q, share.transpose(-1, -2) @ g]


def max_pool(g: Tensor, x: Tensor, kernel: int, stride: int, padding: int, indices: Tensor) -> list[Tensor]:
    planes = torch.zeros_like(x).flatten(2)
    return [planes.scatter_add_(2, indices.flatten(2), g.flatten(2)).reshape(x.shape)]


def linear_relu(g: Tensor, x: Tensor, w: Tensor, b: Tensor, out: Tensor) -> list[Tensor]:
    gated = g * (out > 0)
    return [gated @ w, gated.T @ x, gated.sum(0)]


def llama_ffw(g: Tensor, x: Tensor, wg: Tensor, wu: Tensor, wd: Tensor, gate: Tensor, up: Tensor) -> list[Tensor]:
    half = gate.sigmoid()
    hidden, inner = gate * half * up, g @ wd
    grad_gate, grad_up = inner * up * half * (1 + gate * (1 - half)), inner * gate * half
    return [grad_gate @ wg + grad_up @ wu, grad_gate.T @ x, grad_up.T @ x, g.T @ hidden]


FORMULAS: dict[str, Callable[..., list[Tensor]]] = {
    function.__name__: function
    for function in (
        layernorm,
        llama_rmsnorm,
        group_norm_silu,
        softmax,
        cross_entropy,
        attention,
        max_pool,
        linear_relu,
        llama_ffw,
    )
}


def posed(name: str, seed: int) -> Problem:
    """A backward problem of a task's first float32 smoke case."""
    program = suite_program(name)
    case = next(case for case in program.task.group(Group.SMOKE) if case.dtype is Dtype.FLOAT32)
    return problem(program, Direction.BACKWARD, Trial(case=case, seed=seed))


@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_follows_from_backward_s_arguments(name: str) -> None:
    found = posed(name, 3)
    wide = [a.double() if isinstance(a, Tensor) and a.is_floating_point() else a for a in found.arguments]
    for ours, truth in zip(FORMULAS[name](*wide), found.expected, strict=True):
        assert float((ours - truth).norm()) <= CLOSE * float(truth.norm())


@pytest.mark.parametrize("name", ["linear_relu", "conv_relu_pool", "resnet_block"])
def test_forward_with_the_saved_choices_is_forward(name: str) -> None:
    program = suite_program(name)
    for case in program.task.group(Group.SMOKE):
        arguments = program.arguments(Trial(case=case, seed=4))
        (out,) = program.forward(arguments)
        kept = program.backward_arguments(arguments, [out])[1 + len(arguments) :]
        (again,) = program.chosen(arguments, kept)
        assert torch.allclose(out, again, atol=1e-5, rtol=1e-5)


def test_the_truth_of_backward_follows_a_saved_gate_and_not_its_own() -> None:
    program = suite_program("linear_relu")
    x, weight, bias = (
        part for part in program.arguments(Trial(case=program.task.cases[0])) if isinstance(part, Tensor)
    )
    closed = torch.zeros(x.shape[0], weight.shape[0])
    (out,) = program.chosen((x, weight, bias), (closed,))
    assert not out.any()
