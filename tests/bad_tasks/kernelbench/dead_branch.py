# caught by: dead_code
"""A second projection is computed and dropped."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.linear = nn.Linear(*sizes)

    def forward(self, x):
        projected = self.linear(x)
        dropped = torch.exp(projected).sum(dim=1)
        assert dropped.shape[0] == x.shape[0]
        return torch.tanh(projected)


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, 32]
