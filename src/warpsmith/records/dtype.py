"""Element types of tensors, one row each."""

from enum import StrEnum
from typing import Self

from warpsmith.base import UsageError


class Numbers(StrEnum):
    """Rule that compares results of an element type."""

    ROUNDED = "rounded"  # a float that arithmetic is done in: by the error budget of the task
    STORED = "stored"  # a float that numbers are only kept in: by a step of the type itself
    EXACT = "exact"  # whole numbers and bool: equal or wrong


class Dtype(StrEnum):
    """An element type by torch's name.

    The columns: name, bytes, DLPack's type code, the rule that compares results, and `norm_floor`: the error by norm,
    as a share of the reference's norm, that a task without a floor of its own allows (a few units of the last place).
    """

    bytes: int
    dlpack_code: int
    numbers: Numbers
    norm_floor: float

    # Columns from DLPack's dlpack.h: kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6, kDLFloat8_e4m3fn 10, e5m2
    # 12.
    FLOAT32 = "float32", 4, 2, Numbers.ROUNDED, 2e-6
    FLOAT16 = "float16", 2, 2, Numbers.ROUNDED, 2e-3
    BFLOAT16 = "bfloat16", 2, 4, Numbers.ROUNDED, 1.6e-2
    FLOAT64 = "float64", 8, 2, Numbers.ROUNDED, 4e-15
    FLOAT8_E4M3FN = "float8_e4m3fn", 1, 10, Numbers.STORED, 0.0
    FLOAT8_E5M2 = "float8_e5m2", 1, 12, Numbers.STORED, 0.0
    INT64 = "int64", 8, 0, Numbers.EXACT, 0.0
    INT32 = "int32", 4, 0, Numbers.EXACT, 0.0
    INT16 = "int16", 2, 0, Numbers.EXACT, 0.0
    INT8 = "int8", 1, 0, Numbers.EXACT, 0.0
    UINT8 = "uint8", 1, 1, Numbers.EXACT, 0.0
    BOOL = "bool", 1, 6, Numbers.EXACT, 0.0

    # A member is a str, so it serializes as torch's name; the columns are attributes beside it.
    def __new__(cls, name: str, size: int, code: int, numbers: Numbers, floor: float) -> Self:
        one = str.__new__(cls, name)
        one._value_ = name
        one.bytes, one.dlpack_code, one.numbers, one.norm_floor = size, code, numbers, floor
        return one

    @classmethod
    def from_name(cls, name: str) -> "Dtype":
        """Return the element type of a name. Raise UsageError if it is unknown."""
        found = {dtype.value: dtype for dtype in cls}.get(name)
        if found is None:
            raise UsageError(f"Element type '{name}' is not one that a kernel can take; known are {', '.join(cls)}.")
        return found

    @property
    def floating(self) -> bool:
        """Whether the type holds fractions."""
        return self.numbers is not Numbers.EXACT
