"""A table looked up by whole numbers."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.table = nn.Embedding(*sizes)
        self.linear = nn.Linear(sizes[1], sizes[1])

    def forward(self, tokens: Tensor) -> Tensor:
        return self.linear(self.table(tokens).mean(dim=1))


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randint(50, (batch_size, 12))]


def get_init_inputs() -> list[int]:
    return [50, 16]
