"""Mean cross-entropy of class logits against class numbers, the loss of classifiers and language models."""

import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Fixed, Input

OFFSET = 96  # past log of float32's largest number, so that a sum of exponentials without the maximum overflows


def forward(logits: Input, targets: Fixed) -> Tensor:
    """The mean over rows of log-sum-exp minus the target's logit."""
    return F.cross_entropy(logits, targets)


def saved(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-sum-exp of each row in float32."""
    return torch.logsumexp(logits.double(), -1).float()


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor]:
    """Logits of the family, each row shifted by -96, 0 or 96, which changes no loss."""
    rows, classes = case.sizes("rows", "classes")
    shift = (draw.bits(3, rows, 1) - 1) * OFFSET
    return draw.input(rows, classes) + shift.to(draw.dtype), draw.indices(classes, rows)
