"""Numbers of tensors in float64, on a regular part of those that are large."""

from collections.abc import Sequence

import torch
from torch import Tensor

MOST = 1 << 20  # elements that a statistic looks at


def thinned(tensor: Tensor, most: int = MOST) -> Tensor:
    """Every second index of the longest axis, again and again, until few enough are left; float64."""
    while tensor.numel() > most:
        axis = max(range(tensor.ndim), key=tensor.shape.__getitem__)
        tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
    return tensor.double()


def largest(tensor: Tensor) -> float:
    """The largest magnitude; zero for no elements, NaN where there is one."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def rms(tensor: Tensor) -> float:
    """The root mean square; zero for no elements."""
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0


def norm(tensor: Tensor) -> float:
    """The Euclidean norm."""
    return float(torch.linalg.vector_norm(tensor))


def ratio(top: float, bottom: float) -> float:
    """A quotient; zero over zero is zero."""
    if top == 0:
        return 0.0
    return top / bottom if bottom else float("inf")


def change(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """The largest difference over the largest value, of the output that moved most; another shape is infinite."""
    if [t.shape for t in before] != [t.shape for t in after]:
        return float("inf")
    return max((_moved(old, new) for old, new in zip(before, after, strict=True)), default=0.0)


def _moved(old: Tensor, new: Tensor) -> float:
    first, second = thinned(old), thinned(new)
    if torch.equal(first, second):
        return 0.0
    # Infinities and NaN that stay where they are have not moved.
    finite = first.isfinite() & second.isfinite()
    if not torch.equal(first.isfinite(), second.isfinite()):
        return float("inf")
    return ratio(largest((first - second)[finite]), largest(first[finite]))
