"""Multi-head attention whose weights nobody takes."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(*sizes, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x)[0]


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, 10, features)]


def get_init_inputs() -> list[int]:
    return [features, 4]
