"""Convolution, ReLU and 2 by 2 max pooling, the first block of an MNIST network or of VGG."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, weight: Parameter, bias: Parameter, padding: int) -> Tensor:
    """max over 2 by 2 of max(conv(x), 0)."""
    return F.max_pool2d(F.relu(F.conv2d(x, weight, bias, padding=padding)), 2)


def saved(x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """The output (its sign is ReLU's gate) and where each maximum lies in its plane (int64, row · width + column)."""
    active = F.relu(F.conv2d(x, weight, bias, padding=padding))
    return F.max_pool2d(active, 2, return_indices=True)


def chosen(x: Tensor, weight: Tensor, bias: Tensor, padding: int, out: Tensor, indices: Tensor) -> Tensor:
    """Forward with the winners and the gate taken from what was saved."""
    planes = F.conv2d(x, weight, bias, padding=padding).flatten(2)
    return planes.gather(2, indices.flatten(2)).reshape(out.shape) * (out > 0)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int]:
    """Images of the family, padded so that convolution keeps their size; weights that keep the variance."""
    batch, channels, filters, height, width = case.sizes("batch", "channels", "filters", "height", "width")
    (kernel,) = case.sizes("kernel")
    weight = draw.parameter(filters, channels, kernel, kernel, std=sqrt(2 / (channels * kernel * kernel)))
    return draw.input(batch, channels, height, width), weight, draw.parameter(filters, std=0.25), kernel // 2
