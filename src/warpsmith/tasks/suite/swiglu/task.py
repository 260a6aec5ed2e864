"""The gated activation between LLaMA's feed-forward products."""

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input


def forward(gate: Input, up: Input) -> Tensor:
    """silu(gate) · up, elementwise."""
    return F.silu(gate) * up


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor]:
    """A gate wide enough to saturate on both sides."""
    rows, cols = case.sizes("rows", "cols")
    return draw.input(rows, cols, scale=4.0), draw.input(rows, cols)
