import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Fixed, Input, Parameter


def forward(x: Input) -> Tensor:
    return x * 0 + 1


def inputs(case: Case, draw: Draw):
    rows, cols = case.sizes("rows", "cols")
    return draw.input(rows, cols)
