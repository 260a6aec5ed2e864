# caught by: constant_result
"""A value minus itself."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.linear = nn.Linear(*sizes)

    def forward(self, x):
        y = self.linear(x)
        return torch.tanh(y) + (y - y)


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, 32]
