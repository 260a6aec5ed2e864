"""The head of a contrastive model: embeddings on the unit sphere, and how much energy each has there."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

rows, features = 8192, 768


class UnitEnergy(nn.Module):
    """Rows of length one, and the log-sum-exp of each at a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        unit = F.normalize(x, dim=-1)
        return unit, torch.logsumexp(unit * self.log_scale.exp(), dim=-1)


def example_inputs() -> Tensor:
    return torch.randn(rows, features)
