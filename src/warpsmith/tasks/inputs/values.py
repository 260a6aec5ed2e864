"""What passes between a task and a kernel: tensors, absent tensors, tuples of tensors, numbers, lists of ints."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from warpsmith.records import Dtype

Value: TypeAlias = Tensor | tuple[Tensor, ...] | float | int | bool | list[int] | None
Values: TypeAlias = tuple[Value, ...]

TORCH: dict[Dtype, torch.dtype] = {
    Dtype.FLOAT32: torch.float32,
    Dtype.FLOAT16: torch.float16,
    Dtype.BFLOAT16: torch.bfloat16,
    Dtype.FLOAT64: torch.float64,
}


def tensors(values: Iterable[Value]) -> list[Tensor]:
    """All tensors among the values, those inside tuples included, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(value)
    return found


def mapped(values: Sequence[Value], change: Callable[[Tensor], Tensor]) -> Values:
    """The values with every tensor changed; numbers and absent tensors stay as they are."""

    def one(value: Value) -> Value:
        if isinstance(value, Tensor):
            return change(value)
        if isinstance(value, tuple):
            return tuple(change(part) for part in value)
        return value

    return tuple(one(value) for value in values)


def widened(values: Sequence[Value]) -> Values:
    """The values with floating tensors in float64: what a reference is computed from."""
    return mapped(values, lambda t: t.double() if t.is_floating_point() else t)


def outputs(result: object) -> tuple[Tensor, ...]:
    """What a torch function returned, as a tuple of tensors."""
    found = tuple(result) if isinstance(result, tuple | list) else (result,)
    for part in found:
        if not isinstance(part, Tensor):
            raise TypeError(f"a task returns tensors, not {type(part).__name__}")
    return found
