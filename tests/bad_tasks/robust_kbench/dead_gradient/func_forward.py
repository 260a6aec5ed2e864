# caught by: gradients
"""The backward file detaches the bias, so its gradient is zero."""

import torch
import torch.nn as nn


def forward_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A scaled and shifted hyperbolic tangent."""
    return torch.tanh(x * weight + bias)


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
