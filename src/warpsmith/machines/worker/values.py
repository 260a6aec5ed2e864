"""What goes into a worker and comes out: tensors as raw bytes, and numbers. Knows no torch."""

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from warpsmith.base import fits_int64

# DLPack's codes: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool; and bits an element.
DTYPES = {
    "float64": (2, 64),
    "float32": (2, 32),
    "float16": (2, 16),
    "bfloat16": (4, 16),
    "int64": (0, 64),
    "int32": (0, 32),
    "int16": (0, 16),
    "int8": (0, 8),
    "uint8": (1, 8),
    "bool": (6, 8),
}
NAMES = {code: name for name, code in DTYPES.items()}


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
        return (last + 1) * DTYPES[self.dtype][1] // 8

    @property
    def is_addressable(self) -> bool:
        """Whether torch can describe it: no product of its sizes and strides, in bytes, reaches 2^63."""
        return fits_int64(self.shape, self.strides, DTYPES[self.dtype][1] // 8)

    @property
    def copied_bytes(self) -> int:
        """Bytes of a copy: more than it spans, where elements share memory."""
        return prod(self.shape) * DTYPES[self.dtype][1] // 8


Value: TypeAlias = Raw | tuple[Raw, ...] | list[int] | float | int | bool | None
