"""A bias that starts at zero adds nothing yet."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(*sizes) * 0.1)
        self.bias = nn.Parameter(torch.zeros(sizes[1]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, features)]


def get_init_inputs() -> list[int]:
    return [features, 16]
