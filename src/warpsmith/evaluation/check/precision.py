"""Whether an error has the size that rounding to a narrower format makes. Gives a name to it, never a pass."""

from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.tasks.reference import Problem

# Unit roundoffs. A product of rounded factors is off by about one of them, by eight at the very most.
NARROWER = {"TF32 or float16 arithmetic": 2.0**-11, "bfloat16 arithmetic": 2.0**-8}
LEAST, MEAN, MOST = 1 / 8, 2.0, 8.0


def resembles(results: Sequence[Tensor], problem: Problem) -> str | None:
    """The format whose rounding explains all errors of float32 results, if one does."""
    pairs = [
        (found.double(), expected)
        for found, expected in zip(results, problem.expected, strict=True)
        if found.dtype is torch.float32 and found.numel()
    ]
    if not pairs or not all(bool(torch.isfinite(part).all()) for pair in pairs for part in pair):
        return None
    return next((name for name, unit in NARROWER.items() if _explained(pairs, unit)), None)


def _explained(pairs: Sequence[tuple[Tensor, Tensor]], unit: float) -> bool:
    """Every result within the format's rounding, and at least one as far off as that."""
    means, peaks = zip(*(_errors(found, expected) for found, expected in pairs), strict=True)
    mean, peak = float(max(means)), float(max(peaks))
    return LEAST * unit <= mean <= MEAN * unit and peak <= MOST * unit


def _errors(found: Tensor, expected: Tensor) -> tuple[float, float]:
    """The error's root mean square and its largest element, over the values'."""
    scale = float(expected.square().mean().sqrt()) or 1.0
    error = (found - expected).abs()
    return float(error.square().mean().sqrt()) / scale, float((error / (expected.abs() + scale)).max())
