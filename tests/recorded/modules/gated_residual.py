"""A residual branch that a GELU gate opens, with a learned strength a channel."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

tokens, width = 4096, 1536


class GatedResidual(nn.Module):
    """x + strength · gelu(gate) · x."""

    def __init__(self) -> None:
        super().__init__()
        self.strength = nn.Parameter(0.5 * torch.randn(width))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return x + self.strength * F.gelu(gate) * x


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(tokens, width), 2 * torch.randn(tokens, width)
