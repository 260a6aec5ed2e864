"""Batch norm while training: running statistics are buffers without impact."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(*sizes, bias=False)
        self.norm = nn.BatchNorm2d(sizes[1])

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, 3, 16, 16)]


def get_init_inputs() -> list[int]:
    return [3, 8, 3]
