"""RMSNorm over the last axis, as LLaMA uses it before attention and feed-forward."""

import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Input, Parameter

EPS = (1e-6, 1e-5, 1e-3)  # two that models use, and one that shows beside a variance of one


def forward(x: Input, weight: Parameter, eps: float) -> Tensor:
    """Each row over its root mean square, times a gain."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def saved(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Reciprocal root mean square of each row in float32, as torch keeps it."""
    return (x.double().square().mean(-1) + eps).rsqrt().float()


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, float]:
    """Rows of the family; a gain around one."""
    rows, cols = case.sizes("rows", "cols")
    return draw.input(rows, cols), draw.parameter(cols, mean=1.0, std=0.25), case.pick(EPS)
