# caught by: parameter_impact
"""The bias is passed to the function and never used."""

import torch
import torch.nn as nn


def forward_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A scaled and shifted hyperbolic tangent."""
    return torch.tanh(x * weight)


class Model(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.bias)


def get_inputs(batch_size: int = 16, width: int = 32):
    return [torch.randn(batch_size, width)]


input_names = ["x"]
