import torch
import torch.nn as nn


class Model(nn.Module):
    """A recurrent step that returns its output and a pair of states, and writes its input on the way."""

    def __init__(self, size):
        super(Model, self).__init__()
        self.cell = nn.Linear(2 * size, size)

    def forward(self, x, states, steps):
        h, c = states
        x.relu_()
        for _ in range(steps):
            h = torch.tanh(self.cell(torch.cat([x, h], dim=-1)))
            c = c * 0.5 + h
        return x + h, (h, c)


batch_size = 4
size = 8


def get_inputs():
    return [torch.rand(batch_size, size) - 0.5, (torch.rand(batch_size, size), torch.rand(batch_size, size)), 3]


def get_init_inputs():
    return [size]
