"""Mean cross-entropy of class logits against class numbers, the loss of classifiers and language models."""

import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Fixed, Input

OFFSET = 96  # past log of float32's largest number, so that a sum of exponentials without the maximum overflows

HEIGHT, PEAKS = 20, 4  # of a logit that stands out, in one row of four: a class that is not read is missed in the mean


def forward(logits: Input, targets: Fixed) -> Tensor:
    """The mean over rows of log-sum-exp minus the target's logit."""
    return F.cross_entropy(logits, targets)


def saved(logits: Tensor, targets: Tensor) -> Tensor:
    """Log-sum-exp of each row in float32."""
    return torch.logsumexp(logits.double(), -1).float()


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor]:
    """Logits of the family, each row shifted by -96, 0 or 96, which changes no loss; in the first row and in some
    others a wrong class stands out: were it the right one, gradients would be what rounding leaves of one minus one.
    """
    rows, classes = case.sizes("rows", "classes")
    shift = (draw.bits(3, rows, 1) - 1) * OFFSET
    logits, targets = draw.input(rows, classes) + shift.to(draw.dtype), draw.indices(classes, rows)
    wrong = (targets.unsqueeze(1) + 1 + draw.indices(max(1, classes - 1), rows, 1)) % classes
    standing = draw.bits(PEAKS, rows, 1) == 0
    standing[:1] = True
    return logits.scatter_add_(1, wrong, (standing * HEIGHT).to(draw.dtype)), targets
