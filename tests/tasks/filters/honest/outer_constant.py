"""A tensor that is neither parameter nor buffer, and an einsum."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.shift = torch.linspace(-1, 1, sizes[0])

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bi,bj->bij", x + self.shift, x)


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, features)]


def get_init_inputs() -> list[int]:
    return [features]
