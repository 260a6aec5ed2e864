import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A linear layer, a batch normalization in train mode, and a GELU.
    """

    def __init__(self, in_features, out_features):
        super(Model, self).__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features)
        self.offset = torch.randn(out_features)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.linear(x)).float() + self.offset)


batch_size = 64
in_features = 48
out_features = 40


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
