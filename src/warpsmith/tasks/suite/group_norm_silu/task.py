"""GroupNorm followed by SiLU, the head of every residual block of a diffusion UNet."""

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter

EPS = (1e-6, 1e-5, 1e-3)  # two that models use, and one that shows beside a variance of one


def forward(x: Input, weight: Parameter, bias: Parameter, groups: int, eps: float) -> Tensor:
    """Normalize each group of channels of each image, scale and shift by channel, then SiLU."""
    return F.silu(F.group_norm(x, groups, weight, bias, eps))


def saved(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation of each group in float32, as torch keeps them."""
    wide = x.double().reshape(x.shape[0], groups, -1)
    rstd = (wide.var(-1, unbiased=False) + eps).rsqrt()
    return wide.mean(-1).float(), rstd.float()


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int, float]:
    """Images of the family; a gain around one."""
    batch, channels, height, width, groups = case.sizes("batch", "channels", "height", "width", "groups")
    weight = draw.parameter(channels, mean=1.0, std=0.25)
    x, bias = draw.input(batch, channels, height, width), draw.parameter(channels, std=0.25)
    return x, weight, bias, groups, case.pick(EPS)
