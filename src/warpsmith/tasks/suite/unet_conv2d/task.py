"""The convolutions of a diffusion UNet: 3 by 3, 1 by 1, and 3 by 3 with stride 2 between its levels."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, weight: Parameter, bias: Parameter, stride: int, padding: int) -> Tensor:
    """Convolution with bias."""
    return F.conv2d(x, weight, bias, stride, padding)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int, int]:
    """Images of the family, padded so that stride one keeps their size; weights that keep the variance."""
    batch, channels, filters, height, width = case.sizes("batch", "channels", "filters", "height", "width")
    kernel, stride = case.sizes("kernel", "stride")
    weight = draw.parameter(filters, channels, kernel, kernel, std=1 / (kernel * sqrt(channels)))
    return draw.input(batch, channels, height, width), weight, draw.parameter(filters, std=0.25), stride, kernel // 2
