"""LLaMA's feed-forward layer: two products, a gated activation, a third product."""

from math import sqrt

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter


def forward(x: Input, gate_weight: Parameter, up_weight: Parameter, down_weight: Parameter) -> Tensor:
    """(silu(x · gateᵀ) · (x · upᵀ)) · downᵀ."""
    return F.linear(F.silu(F.linear(x, gate_weight)) * F.linear(x, up_weight), down_weight)


def saved(x: Tensor, gate_weight: Tensor, up_weight: Tensor, down_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Both first products; what follows them is elementwise."""
    return F.linear(x, gate_weight), F.linear(x, up_weight)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows of the family; weights that keep the variance."""
    rows, hidden, inner = case.sizes("rows", "hidden", "inner")
    gate, up = (draw.parameter(inner, hidden, std=1 / sqrt(hidden)) for _ in range(2))
    return draw.input(rows, hidden), gate, up, draw.parameter(hidden, inner, std=1 / sqrt(inner))
