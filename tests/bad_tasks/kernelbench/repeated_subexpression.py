# caught by: repeated_work
"""The same softmax twice."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        return torch.softmax(x, dim=-1) * torch.log(torch.softmax(x, dim=-1) * 10)


batch_size = 16
features = 64


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return []
