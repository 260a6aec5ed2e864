"""The basic residual block of ResNet with batch norm as it is served: by running statistics."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Fixed, Input, Parameter

EPS = (1e-6, 1e-5, 1e-3)  # two that models use, and one that shows beside a variance of one


def forward(
    x: Input,
    weight1: Parameter,
    gamma1: Parameter,
    beta1: Parameter,
    weight2: Parameter,
    gamma2: Parameter,
    beta2: Parameter,
    mean1: Fixed,
    var1: Fixed,
    mean2: Fixed,
    var2: Fixed,
    eps: float,
) -> Tensor:
    """relu(x + bn(conv(relu(bn(conv(x)))))), both convolutions 3 by 3 with padding 1."""
    first = F.batch_norm(F.conv2d(x, weight1, padding=1), mean1, var1, gamma1, beta1, eps=eps)
    second = F.batch_norm(F.conv2d(F.relu(first), weight2, padding=1), mean2, var2, gamma2, beta2, eps=eps)
    return F.relu(x + second)


def saved(
    x: Tensor,
    weight1: Tensor,
    gamma1: Tensor,
    beta1: Tensor,
    weight2: Tensor,
    gamma2: Tensor,
    beta2: Tensor,
    mean1: Tensor,
    var1: Tensor,
    mean2: Tensor,
    var2: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What autograd keeps beside the arguments: both convolutions' results, the hidden activation and the output."""
    conv1 = F.conv2d(x, weight1, padding=1)
    hidden = F.relu(F.batch_norm(conv1, mean1, var1, gamma1, beta1, eps=eps))
    conv2 = F.conv2d(hidden, weight2, padding=1)
    out = F.relu(x + F.batch_norm(conv2, mean2, var2, gamma2, beta2, eps=eps))
    return conv1, hidden, conv2, out


def chosen(
    x: Tensor,
    weight1: Tensor,
    gamma1: Tensor,
    beta1: Tensor,
    weight2: Tensor,
    gamma2: Tensor,
    beta2: Tensor,
    mean1: Tensor,
    var1: Tensor,
    mean2: Tensor,
    var2: Tensor,
    eps: float,
    conv1: Tensor,
    hidden: Tensor,
    conv2: Tensor,
    out: Tensor,
) -> Tensor:
    """Forward with both gates taken from what was saved."""
    first = F.batch_norm(F.conv2d(x, weight1, padding=1), mean1, var1, gamma1, beta1, eps=eps) * (hidden > 0)
    second = F.batch_norm(F.conv2d(first, weight2, padding=1), mean2, var2, gamma2, beta2, eps=eps)
    return (x + second) * (out > 0)


def inputs(case: Case, draw: Draw) -> tuple[Tensor | float, ...]:
    """Images of the family; weights that keep the variance; statistics of a trained network, var above a half."""
    batch, channels, height, width = case.sizes("batch", "channels", "height", "width")
    x = draw.input(batch, channels, height, width)
    trained = [part for _ in range(2) for part in _layer(draw, channels)]
    running = [part for _ in range(2) for part in _statistics(draw, channels)]
    return x, *trained, *running, case.pick(EPS)


def _layer(draw: Draw, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    weight = draw.parameter(channels, channels, 3, 3, std=sqrt(2 / (9 * channels)))
    return weight, draw.parameter(channels, mean=1.0, std=0.25), draw.parameter(channels, std=0.25)


def _statistics(draw: Draw, channels: int) -> tuple[Tensor, Tensor]:
    return (draw.normal(channels) * 0.25).to(draw.dtype), (draw.uniform(channels) + 0.5).to(draw.dtype)
