"""Values between a task and a kernel: tensors, tuples, numbers, lists."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from warpsmith.records import Dtype, Numbers

Value: TypeAlias = Tensor | tuple[Tensor, ...] | float | int | bool | list[int] | None
Values: TypeAlias = tuple[Value, ...]

TORCH: dict[Dtype, torch.dtype] = {dtype: getattr(torch, dtype) for dtype in Dtype}


def dtype_of(tensor: Tensor) -> Dtype:
    """Return a tensor's element type. Raise UsageError for one that no kernel can take."""
    return Dtype.from_name(str(tensor.dtype).removeprefix("torch."))


def computable(tensor: Tensor) -> Tensor:
    """Return the tensor, in float32 where torch has no arithmetic for its element type."""
    return tensor.float() if dtype_of(tensor).numbers is Numbers.STORED else tensor


def tensors(values: Iterable[Value]) -> list[Tensor]:
    """Return all tensors, including those inside tuples."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(value)
    return found


def mapped(values: Sequence[Value], change: Callable[[Tensor], Tensor]) -> Values:
    """Apply a function to every tensor."""

    def one(value: Value) -> Value:
        if isinstance(value, Tensor):
            return change(value)
        if isinstance(value, tuple):
            return tuple(change(part) for part in value)
        return value

    return tuple(one(value) for value in values)


def widened(values: Sequence[Value]) -> Values:
    """Return the values with floating-point tensors in float64."""
    return mapped(values, lambda t: t.double() if t.is_floating_point() else t)


def outputs(result: object) -> tuple[Tensor, ...]:
    """Return a torch function's results as a tuple of tensors. Raise TypeError for other values."""
    found = tuple(result) if isinstance(result, tuple | list) else (result,)
    for part in found:
        if not isinstance(part, Tensor):
            raise TypeError(f"a task returns tensors, not {type(part).__name__}")
        dtype_of(part)  # one that no kernel can return is refused here
    return found
