"""Attribution of an error to a narrower format. It names the cause of a failure and never decides."""

from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.tasks.reference import Problem

# Unit roundoffs. A product of rounded factors is off by about one of them, by eight at the very most.
NARROWER = {"TF32 or float16 arithmetic": 2.0**-11, "bfloat16 arithmetic": 2.0**-8}
LEAST, MEAN, MOST = 1 / 8, 2.0, 8.0


def narrower_format(results: Sequence[Tensor], problem: Problem) -> str | None:
    """Return the format whose rounding explains all errors of float32 results, or None."""
    pairs = [
        (found.double(), expected)
        for found, expected in zip(results, problem.expected, strict=True)
        if found.dtype is torch.float32 and found.numel()
    ]
    if not pairs or not all(bool(torch.isfinite(part).all()) for pair in pairs for part in pair):
        return None
    return next((name for name, unit in NARROWER.items() if _is_explained_by(pairs, unit)), None)


def _is_explained_by(pairs: Sequence[tuple[Tensor, Tensor]], unit: float) -> bool:
    """Return whether a format's rounding explains every error."""
    means, peaks = zip(*(_errors(found, expected) for found, expected in pairs), strict=True)
    mean, peak = float(max(means)), float(max(peaks))
    return LEAST * unit <= mean <= MEAN * unit and peak <= MOST * unit


def _errors(found: Tensor, expected: Tensor) -> tuple[float, float]:
    """Return the relative mean and largest error."""
    scale = float(expected.square().mean().sqrt()) or 1.0
    error = (found - expected).abs()
    return float(error.square().mean().sqrt()) / scale, float((error / (expected.abs() + scale)).max())
