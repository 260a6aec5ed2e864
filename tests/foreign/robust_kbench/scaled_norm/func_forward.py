import torch
import torch.nn as nn
import torch.nn.functional as F


def forward_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """
    Layer normalization over the trailing axes that the weight covers, then an affine map.

    Args:
        x: data of any leading shape.
    """
    return F.layer_norm(x, tuple(x.shape[-weight.dim() :]), weight, bias, eps)


class Model(nn.Module):
    """A normalization with its two parameters."""

    def __init__(self, num_features: int, width: int, eps: float = 1e-5, init_method: str = "standard"):
        super(Model, self).__init__()
        shape = (num_features, width)
        self.eps = eps
        if init_method == "standard":
            self.weight = nn.Parameter(torch.ones(shape))
            self.bias = nn.Parameter(torch.zeros(shape))
        else:
            self.weight = nn.Parameter(torch.randn(shape))
            self.bias = nn.Parameter(torch.randn(shape))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.bias, self.eps)


def get_inputs(batch_size: int = 16, num_features: int = 8, width: int = 32):
    x = torch.randn(batch_size, num_features, width)
    return [x]


input_names = ["x"]
