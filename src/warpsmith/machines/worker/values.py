"""Values that cross into a worker: raw tensors and numbers."""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from warpsmith.base import fits_int64
from warpsmith.records import Dtype


@dataclass(frozen=True)
class Raw:
    """A tensor as bytes, with strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data: bytes

    @property
    def span_bytes(self) -> int:
        """The bytes from the first element to the last."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * Dtype.from_name(self.dtype).bytes

    @property
    def is_addressable(self) -> bool:
        """Whether all byte offsets are below 2^63."""
        return fits_int64(self.shape, self.strides, Dtype.from_name(self.dtype).bytes)

    @property
    def copied_bytes(self) -> int:
        """The bytes of a contiguous copy."""
        # Strides may repeat elements, for example with stride 0, so a copy can be larger than the span.
        return prod(self.shape) * Dtype.from_name(self.dtype).bytes


Value: TypeAlias = Raw | tuple[Raw, ...] | list[int] | float | int | bool | None
