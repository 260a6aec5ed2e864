# caught by: constant_baseline
"""A mean over many squares is the same number for every draw."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x, y):
        return ((x - y) ** 2).mean()


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(1024, 1024), torch.randn(1024, 1024)]


def get_init_inputs():
    return []
