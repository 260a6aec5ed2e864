"""The byte form of a problem: a JSON header, then raw tensors."""

import struct
from collections.abc import Iterator, Sequence
from math import prod

import torch
from pydantic import NonNegativeInt
from torch import Tensor

from warpsmith.base import fits_int64
from warpsmith.records import ArgumentKind, Dtype, Model
from warpsmith.tasks.inputs import TORCH, Value, Values, dtype_of, tensors
from warpsmith.tasks.reference import Problem

LENGTH = struct.Struct("<I")
HEADER_BYTES = 4 << 20
DIMS = 16


class TensorSlot(Model):
    """A tensor's layout. Its bytes, from the first to the last element, follow the header."""

    dtype: str
    shape: tuple[NonNegativeInt, ...]
    strides: tuple[NonNegativeInt, ...]

    @property
    def span(self) -> int:
        """The number of elements from the first to the last, gaps included."""
        if not prod(self.shape):
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))


class ValueSlot(Model):
    """One value: tensors, a number, or a list of integers. An absent tensor has none of them."""

    kind: ArgumentKind
    tensors: tuple[TensorSlot, ...] = ()
    number: int | float | None = None
    ints: tuple[int, ...] = ()


class ProblemHeader(Model):
    """The layout of a whole problem."""

    arguments: tuple[ValueSlot, ...]
    native: tuple[ValueSlot, ...]
    expected: tuple[ValueSlot, ...]

    @property
    def every(self) -> Iterator[ValueSlot]:
        """Yield all values in the order of their bytes."""
        yield from (*self.arguments, *self.native, *self.expected)


def encode(problem: Problem) -> bytes:
    """Return the problem as bytes."""
    parts = (problem.arguments, problem.native, problem.expected)
    header = ProblemHeader(
        arguments=tuple(map(_slot, parts[0])),
        native=tuple(map(_slot, parts[1])),
        expected=tuple(map(_slot, parts[2])),
    )
    text = header.text().encode()
    # Tensors follow in the order of the header, without separators: their sizes follow from the header.
    return b"".join([LENGTH.pack(len(text)), text, *(_raw(tensor) for part in parts for tensor in tensors(part))])


def decode(payload: bytes) -> Problem:
    """Return the problem in foreign bytes. Raise ValueError if they are malformed."""
    if len(payload) < LENGTH.size:
        raise ValueError(f"{len(payload)} bytes are no problem")
    (length,) = LENGTH.unpack_from(payload)
    # The length is foreign: it is compared with the bound and with the payload before it is used.
    if length > HEADER_BYTES or LENGTH.size + length > len(payload):
        raise ValueError(f"a header of {length} bytes in {len(payload)}; at most {HEADER_BYTES} are read")
    header = ProblemHeader.read(payload[LENGTH.size : LENGTH.size + length])
    if isinstance(header, str):
        raise ValueError(f"header: {header}")
    store = _Store(payload, LENGTH.size + length)
    parts = [tuple(_value(slot, store) for slot in part) for part in (header.arguments, header.native, header.expected)]
    # Surplus bytes mean that header and body disagree.
    if store.left:
        raise ValueError(f"{store.left} bytes more than the header names")
    return Problem(parts[0], _only_tensors(parts[1]), _only_tensors(parts[2]))


class _Store:
    """The bytes after the header, from which one tensor after the other is taken."""

    def __init__(self, payload: bytes, start: int) -> None:
        self._payload = memoryview(payload)[start:]

    @property
    def left(self) -> int:
        return len(self._payload)

    def take(self, slot: TensorSlot) -> Tensor:
        if slot.dtype not in TORCH:
            raise ValueError(f"element type '{slot.dtype}' does not exist")
        if len(slot.shape) != len(slot.strides) or len(slot.shape) > DIMS:
            raise ValueError(f"shape {slot.shape} with strides {slot.strides}")
        dtype = TORCH[Dtype.from_name(slot.dtype)]
        # A stride times a size may pass 2^63, where torch's own check would overflow.
        if not fits_int64(slot.shape, slot.strides, dtype.itemsize):
            raise ValueError("a tensor whose sizes and strides reach 2^63 bytes")
        count = slot.span * dtype.itemsize
        # Compared with the bytes that exist, so a forged header cannot reserve memory.
        if count > self.left:
            raise ValueError(f"a tensor of {count} bytes where {self.left} are left")
        # A copy: frombuffer needs memory that it may write and that nothing else changes.
        raw, self._payload = bytearray(self._payload[:count]), self._payload[count:]
        if not raw:
            return torch.empty(slot.shape, dtype=dtype)
        return torch.frombuffer(raw, dtype=dtype).as_strided(slot.shape, slot.strides)


def _slot(value: Value) -> ValueSlot:
    match value:
        case None:
            return ValueSlot(kind=ArgumentKind.OPTIONAL_TENSOR)
        case Tensor():
            return ValueSlot(kind=ArgumentKind.TENSOR, tensors=(_layout(value),))
        case tuple():
            return ValueSlot(kind=ArgumentKind.TENSORS, tensors=tuple(map(_layout, value)))
        case bool():
            return ValueSlot(kind=ArgumentKind.BOOL, number=int(value))
        case int():
            return ValueSlot(kind=ArgumentKind.INT, number=value)
        case float():
            return ValueSlot(kind=ArgumentKind.FLOAT, number=value)
        case list():
            return ValueSlot(kind=ArgumentKind.INTS, ints=tuple(value))


def _value(slot: ValueSlot, store: _Store) -> Value:
    found = tuple(store.take(tensor) for tensor in slot.tensors)
    match slot.kind:
        case ArgumentKind.TENSOR if len(found) == 1:
            return found[0]
        case ArgumentKind.OPTIONAL_TENSOR if not found:
            return None
        case ArgumentKind.TENSORS:
            return found
        case ArgumentKind.INTS:
            return list(slot.ints)
        case ArgumentKind.FLOAT if slot.number is not None:
            return float(slot.number)
        case ArgumentKind.INT if isinstance(slot.number, int):
            return slot.number
        case ArgumentKind.BOOL if slot.number in (0, 1):
            return bool(slot.number)
    raise ValueError(f"a {slot.kind} that holds none")


def _layout(tensor: Tensor) -> TensorSlot:
    return TensorSlot(dtype=dtype_of(tensor), shape=tuple(tensor.shape), strides=tuple(tensor.stride()))


def _raw(tensor: Tensor) -> bytes:
    span = _layout(tensor).span
    if not span:
        return b""
    # The span with its gaps is sent, so that strides survive.
    flat = tensor.detach().resolve_neg().as_strided((span,), (1,))
    raw: bytes = flat.contiguous().view(torch.uint8).numpy().tobytes()
    return raw


def _only_tensors(values: Values) -> tuple[Tensor, ...]:
    found: list[Tensor] = []
    for value in values:
        if not isinstance(value, Tensor):
            # A result that is no tensor could not be compared.
            raise ValueError(f"a result is a {type(value).__name__}, not a tensor")
        found.append(value)
    return tuple(found)


def same_signature(kinds: Sequence[ArgumentKind], values: Values) -> bool:
    """Whether values have the kinds of a signature's arguments."""
    fits = {ArgumentKind.TENSOR: {ArgumentKind.OPTIONAL_TENSOR}, ArgumentKind.INT: {ArgumentKind.FLOAT}}
    found = [_slot(value).kind for value in values]
    return len(found) == len(kinds) and all(f is k or k in fits.get(f, ()) for f, k in zip(found, kinds, strict=True))
