"""A linear layer on a matrix, as at the end of every MLP."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, weight: Parameter, bias: Parameter) -> Tensor:
    """x · weightᵀ + bias."""
    return F.linear(x, weight, bias)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the family; weights that keep the variance."""
    rows, inner, cols = case.sizes("rows", "inner", "cols")
    return draw.input(rows, inner), draw.parameter(cols, inner, std=1 / sqrt(inner)), draw.parameter(cols, std=0.25)
