"""Max pooling of images: 2 by 2 as in MNIST networks and UNets, 3 by 3 with stride 2 as in ResNet's stem."""

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input


def forward(x: Input, kernel: int, stride: int, padding: int) -> Tensor:
    """The largest value of each window; the padding never wins."""
    return F.max_pool2d(x, kernel, stride, padding)


def saved(x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Where in its image plane each maximum lies (int64, row times width plus column); the first of equals."""
    return F.max_pool2d(x, kernel, stride, padding, return_indices=True)[1]


def inputs(case: Case, draw: Draw) -> tuple[Tensor, int, int, int]:
    """Images of the family, padded so that a window of odd size is centred."""
    batch, channels, height, width = case.sizes("batch", "channels", "height", "width")
    kernel, stride = case.sizes("kernel", "stride")
    return draw.input(batch, channels, height, width), kernel, stride, (kernel - 1) // 2
