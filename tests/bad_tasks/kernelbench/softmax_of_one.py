# caught by: constant_result
"""A softmax over an axis of size one is one."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.linear = nn.Linear(*sizes)

    def forward(self, x):
        weights = torch.softmax(self.linear(x), dim=1)
        return weights * x


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, 1]
