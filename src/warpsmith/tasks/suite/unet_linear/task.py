"""The linear layers of a UNet's transformer blocks: tokens of an image, channels last."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, weight: Parameter, bias: Parameter) -> Tensor:
    """x · weightᵀ + bias for every token of every image."""
    return F.linear(x, weight, bias)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of the family; weights that keep the variance."""
    batch, tokens, inner, cols = case.sizes("batch", "tokens", "inner", "cols")
    weight = draw.parameter(cols, inner, std=1 / sqrt(inner))
    return draw.input(batch, tokens, inner), weight, draw.parameter(cols, std=0.25)
