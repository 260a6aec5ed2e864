# caught by: parameter_impact
"""A bias right before a normalization without groups: it is subtracted again."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.conv = nn.Conv2d(*sizes)

    def forward(self, x):
        return F.instance_norm(self.conv(x))


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(4, 3, 16, 16)]


def get_init_inputs():
    return [3, 8, 3]
