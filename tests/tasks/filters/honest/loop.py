"""A scan written as a loop over time."""

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.rand(*sizes))

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            state = self.decay * state + x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


batch_size = 8
features = 32


def get_inputs() -> list[Tensor]:
    return [torch.randn(batch_size, 10, features)]


def get_init_inputs() -> list[int]:
    return [features]
