"""Many parameters: a small residual network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, sizes[0], 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(sizes[0], sizes[0], 3, padding=1) for _ in range(sizes[1]))
        self.head = nn.Linear(sizes[0], 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        for block in self.blocks:
            y = y + F.relu(block(y))
        return self.head(y.mean(dim=(2, 3)))


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, 3, 16, 16)]


def get_init_inputs() -> list[int]:
    return [8, 8]
