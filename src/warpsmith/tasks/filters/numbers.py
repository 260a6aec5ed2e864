"""Numbers of tensors in float64; large tensors are thinned first."""

from collections.abc import Sequence

import torch
from torch import Tensor

MOST = 1 << 20  # elements that a statistic looks at


def thin(tensor: Tensor, most: int = MOST) -> Tensor:
    """Keep every second index of the longest axis until at most `most` elements are left; return float64."""
    # Every second index keeps the structure along each axis, which a random choice of elements would lose.
    while tensor.numel() > most:
        axis = max(range(tensor.ndim), key=tensor.shape.__getitem__)
        tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
    return tensor.double()


def largest_magnitude(tensor: Tensor) -> float:
    """Return the largest magnitude; 0 for no elements, NaN if there is one."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def rms(tensor: Tensor) -> float:
    """Return the root mean square; 0 for no elements."""
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0


def norm(tensor: Tensor) -> float:
    """Return the Euclidean norm."""
    return float(torch.linalg.vector_norm(tensor))


def ratio(top: float, bottom: float) -> float:
    """Return a quotient; 0 / 0 is 0."""
    if top == 0:
        return 0.0
    return top / bottom if bottom else float("inf")


def relative_change(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """Return the largest difference over the largest value of any output; infinite if a shape differs."""
    if [t.shape for t in before] != [t.shape for t in after]:
        return float("inf")
    return max((_tensor_change(old, new) for old, new in zip(before, after, strict=True)), default=0.0)


def _tensor_change(old: Tensor, new: Tensor) -> float:
    """Return the relative change of one output."""
    first, second = thin(old), thin(new)
    if torch.equal(first, second):
        return 0.0
    # Infinities and NaN that stay where they are have not moved.
    finite = first.isfinite() & second.isfinite()
    if not torch.equal(first.isfinite(), second.isfinite()):
        return float("inf")
    return ratio(largest_magnitude((first - second)[finite]), largest_magnitude(first[finite]))
