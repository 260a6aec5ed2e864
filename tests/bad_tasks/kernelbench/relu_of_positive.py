# caught by: constant_baseline
"""On inputs that are never negative, ReLU is a copy."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        return torch.relu(x)


batch_size = 16
features = 64


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return []
