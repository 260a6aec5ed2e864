"""A linear layer with ReLU, the hidden layer of an MLP."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, weight: Parameter, bias: Parameter) -> Tensor:
    """max(x · weightᵀ + bias, 0)."""
    return F.relu(F.linear(x, weight, bias))


def saved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The output: torch keeps it for ReLU's gate."""
    return forward(x, weight, bias)


def chosen(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Tensor:
    """Forward with the gate taken from the saved output."""
    return F.linear(x, weight, bias) * (out > 0)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the family; weights that keep the variance through ReLU."""
    rows, inner, cols = case.sizes("rows", "inner", "cols")
    return draw.input(rows, inner), draw.parameter(cols, inner, std=sqrt(2 / inner)), draw.parameter(cols, std=0.25)
