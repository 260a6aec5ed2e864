"""Large enough to be looked at in part."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(*sizes)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.linear(x))


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(65536, 128)]


def get_init_inputs() -> list[int]:
    return [128, 16]
