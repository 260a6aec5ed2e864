# caught by: gradients
"""The backward file detaches the bias, so its gradient is zero."""

import torch
import torch.nn as nn


class AutogradFunction(torch.autograd.Function):
    forward_fn = None
    backward_fn = None

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return AutogradFunction.forward_fn(x, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, bias = ctx.saved_tensors
        grad_x, grad_weight, grad_bias = AutogradFunction.backward_fn(grad_output, x, weight, bias)
        return grad_x, grad_weight, grad_bias


def forward_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A scaled and shifted hyperbolic tangent."""
    return torch.tanh(x * weight + bias.detach())


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
