"""LayerNorm over the last axis, as in BERT and GPT-2."""

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter

EPS = (1e-6, 1e-5, 1e-3)  # two that models use, and one that shows beside a variance of one


def forward(x: Input, weight: Parameter, bias: Parameter, eps: float) -> Tensor:
    """Normalize each row to mean zero and variance one, then scale and shift."""
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def saved(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation of each row in float32, as torch keeps them."""
    wide = x.double()
    rstd = (wide.var(-1, unbiased=False) + eps).rsqrt()
    return wide.mean(-1).float(), rstd.float()


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, float]:
    """Rows of the family; a gain around one."""
    x = draw.input(*case.sizes("rows", "cols"))
    weight, bias = draw.parameter(x.shape[-1], mean=1.0, std=0.25), draw.parameter(x.shape[-1], std=0.25)
    return x, weight, bias, case.pick(EPS)
