"""Conversion between torch tensors and raw tensors."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.machines.worker.values import Raw, Value
from warpsmith.records import ArgumentKind, Signature
from warpsmith.tasks.inputs import dtype_of


def to_raw(tensor: Tensor) -> Raw:
    """Return a CPU tensor's layout and bytes."""
    bare = Raw(dtype_of(tensor), tuple(tensor.shape), tuple(tensor.stride()), b"")
    kept = tensor.detach()
    data = ctypes.string_at(kept.data_ptr(), bare.span_bytes) if bare.span_bytes else b""
    return Raw(bare.dtype, bare.shape, bare.strides, data)


def to_tensor(raw: Raw) -> Tensor:
    """Return a raw tensor as a torch tensor."""
    dtype: torch.dtype = getattr(torch, raw.dtype)
    if not raw.data:
        return torch.empty_strided(raw.shape, raw.strides, dtype=dtype)
    return torch.frombuffer(bytearray(raw.data), dtype=dtype).as_strided(raw.shape, raw.strides)


def to_values(values: Sequence[object], signature: Signature | None = None) -> tuple[Value, ...]:
    """Return a task's arguments as values for a worker."""
    # Python callers pass 1 for a float parameter; the ABI has separate kinds and would refuse the
    # integer.
    kinds = [argument.kind for argument in signature.arguments] if signature else [None] * len(values)
    return tuple(_value(value, kind) for value, kind in zip(values, kinds, strict=True))


def _value(value: object, kind: ArgumentKind | None) -> Value:
    """Return one argument as a value; raise TypeError if unknown."""
    if isinstance(value, Tensor):
        return to_raw(value)
    if isinstance(value, tuple):
        return tuple(to_raw(part) for part in value)
    if kind is ArgumentKind.FLOAT and isinstance(value, int | float):
        return float(value)
    if value is None or isinstance(value, bool | int | float | list):
        return value
    raise TypeError(f"{type(value).__name__} is no argument of a kernel")
