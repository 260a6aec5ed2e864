"""Bounds of a strided tensor in 64-bit arithmetic."""

from collections.abc import Sequence
from math import prod

INT64_MAX = (1 << 63) - 1


def fits_int64(shape: Sequence[int], strides: Sequence[int], element_bytes: int) -> bool:
    """Return whether sizes, strides and span of a tensor stay below 2^63 bytes.

    A size of 0 counts as 1: torch multiplies the sizes in order, so those of an empty tensor overflow as well.
    """
    sizes = [max(1, size) for size in shape]
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return max(prod(sizes), span, *strides, 0) * element_bytes <= INT64_MAX
