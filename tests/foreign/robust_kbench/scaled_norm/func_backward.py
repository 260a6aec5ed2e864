import torch
import torch.nn as nn
import torch.nn.functional as F


class AutogradFunction(torch.autograd.Function):
    forward_fn = None
    backward_fn = None

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        normalized_shape = tuple(x.shape[-weight.dim() :])
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        ctx.normalized_shape = normalized_shape
        return AutogradFunction.forward_fn(x, weight, bias, eps)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, bias = ctx.saved_tensors
        eps = ctx.eps
        normalized_shape = ctx.normalized_shape
        grad_weight, grad_bias, grad_input = AutogradFunction.backward_fn(
            grad_output, x, weight, bias, eps, normalized_shape
        )
        return grad_input, grad_weight, grad_bias, None


def forward_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Layer normalization over the trailing axes that the weight covers, then an affine map."""
    return F.layer_norm(x, tuple(x.shape[-weight.dim() :]), weight, bias, eps)


class Model(nn.Module):
    def __init__(self, num_features: int, width: int, eps: float = 1e-5, init_method: str = "standard"):
        super(Model, self).__init__()
        shape = (num_features, width)
        self.eps = eps
        if init_method == "standard":
            self.weight = nn.Parameter(torch.ones(shape), requires_grad=True)
            self.bias = nn.Parameter(torch.zeros(shape), requires_grad=True)
        else:
            self.weight = nn.Parameter(torch.randn(shape), requires_grad=True)
            self.bias = nn.Parameter(torch.randn(shape), requires_grad=True)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.bias, self.eps)


def get_inputs(batch_size: int = 16, num_features: int = 8, width: int = 32):
    x = torch.randn(batch_size, num_features, width, requires_grad=True)
    return [x]


input_names = ["x"]
