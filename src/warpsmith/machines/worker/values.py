"""Values that cross into a worker and back: tensors as raw bytes, and numbers. Knows no torch."""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from warpsmith.base import fits_int64
from warpsmith.records import Dtype


@dataclass(frozen=True)
class Raw:
    """A tensor: `data` reaches from its first element to its last, strides count elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data: bytes

    @property
    def span_bytes(self) -> int:
        """Bytes from the first element to the last, by shape and strides."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * Dtype.from_name(self.dtype).bytes

    @property
    def is_addressable(self) -> bool:
        """Whether torch can describe it: no product of its sizes and strides, in bytes, reaches 2^63."""
        return fits_int64(self.shape, self.strides, Dtype.from_name(self.dtype).bytes)

    @property
    def copied_bytes(self) -> int:
        """Bytes of a copy: more than it spans, where elements share memory."""
        return prod(self.shape) * Dtype.from_name(self.dtype).bytes


Value: TypeAlias = Raw | tuple[Raw, ...] | list[int] | float | int | bool | None
