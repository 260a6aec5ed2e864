"""A norm with a lower bound that never binds."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.sizes = sizes

    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=1, keepdim=True).clamp(min=1e-8)


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, features)]


def get_init_inputs() -> list[int]:
    return []
