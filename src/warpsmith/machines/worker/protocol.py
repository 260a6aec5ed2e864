"""The payloads of the worker's frames; native/worker_protocol.h is the other half."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from typing import Any

from warpsmith.machines.worker.values import Raw, Value
from warpsmith.records import Dtype

# All structs are little endian without padding; native/worker_protocol.h has the same layouts.
HEAD = struct.Struct("<III")
VALUE = struct.Struct("<ii")
TENSOR = struct.Struct("<BBHi")
PLACE = struct.Struct("<QQ")
RESULT = struct.Struct("<iidII")
CLOCKS = struct.Struct("<ddI")
# Bounds of a hostile reply: without them a few bytes could ask for unbounded work or memory.
MOST_DIMENSIONS, MOST_RESULTS, MOST_BLOCKS = 16, 64, 1 << 16
MOST_TEXT = 1 << 16  # bytes of what a candidate complains of
MOST_SAID = 200  # of a worker's reason
RETURN_BYTES, QUEUED, RECORDING, AWAKE = 1, 1, 2, 4
LEAST_US = 0.001

DTYPES = {(dtype.dlpack_code, 8 * dtype.bytes): dtype.value for dtype in Dtype}

Placed = Callable[[Raw], int]  # a tensor to its device address; 0 sends the bytes along


class FrameKind(IntEnum):
    """The kinds of frames; replies are above 100."""

    LOAD = 1
    CALL = 2
    LEAVE = 3
    SHARE = 4
    ARM = 5
    GO = 6
    RECORD = 7
    PLAY = 8
    RESTORE = 9
    LOADED = 101
    RESULT = 102
    READY = 103
    TIMED = 104
    RECORDED = 105


class ValueKind(IntEnum):
    """The kinds of values, as WsKind in abi.h."""

    NONE = 0
    TENSOR = 1
    TENSORS = 2
    FLOAT = 3
    INT = 4
    BOOL = 5
    INTS = 6


class Status(IntEnum):
    """The worker's status of a call; negatives from abi.h."""

    DONE = 0
    BAD_REQUEST = 1
    NO_LOAD = 2
    OTHER_ABI = 3
    CUDA_ERROR = 4
    BAD_RESULT = 5
    THREW = 6
    NO_SUCH_ENTRY = -1
    BAD_ARGUMENTS = -2
    REFUSED = -3
    HEADER_CUDA_ERROR = -4
    TOO_MANY_RESULTS = -5


class MalformedReply(Exception):
    """A reply that does not follow the protocol."""


@dataclass(frozen=True)
class ReportedTensor:
    """A result as the worker reports it, unchecked."""

    tensor: Raw
    address: int


@dataclass(frozen=True)
class WorkerReply:
    """The worker's reply to a load or a call."""

    status: Status
    cuda_error: int
    seconds: float
    text: str
    results: tuple[ReportedTensor, ...]


def call(
    entry: str, values: Sequence[Value], placed: Placed | None, recorded: bool = False, awake: bool = False
) -> bytes:
    """Encode a CALL or ARM frame."""
    # With `placed`, tensors already lie in memory that the worker maps, and only coded addresses travel.
    # Without it the bytes travel in both directions.
    name = entry.encode()
    flags = (0 if placed else RETURN_BYTES) | RECORDING * recorded | AWAKE * awake
    head = HEAD.pack(flags, len(name), len(values))
    return b"".join([head, name, *(part for value in values for part in _value(value, placed))])


def _value(value: Value, placed: Placed | None) -> Iterable[bytes]:
    """Yield the encoded parts of one value."""
    # bool stands before int: Python's bool is an int, and the candidate's signature distinguishes them.
    match value:
        case None:
            yield VALUE.pack(ValueKind.NONE, 0)
        case Raw():
            yield VALUE.pack(ValueKind.TENSOR, 1)
            yield from _tensor(value, placed)
        case bool():
            yield VALUE.pack(ValueKind.BOOL, 1) + struct.pack("<q", value)
        case int():
            yield VALUE.pack(ValueKind.INT, 1) + struct.pack("<q", value)
        case float():
            yield VALUE.pack(ValueKind.FLOAT, 1) + struct.pack("<d", value)
        case tuple():
            yield VALUE.pack(ValueKind.TENSORS, len(value))
            for part in value:
                yield from _tensor(part, placed)
        case list():
            yield VALUE.pack(ValueKind.INTS, len(value)) + struct.pack(f"<{len(value)}q", *value)


def _tensor(raw: Raw, placed: Placed | None) -> Iterable[bytes]:
    """Yield the encoded parts of one tensor."""
    dtype = Dtype.from_name(raw.dtype)
    address = placed(raw) if placed else 0
    data = b"" if address else raw.data
    yield TENSOR.pack(dtype.dlpack_code, 8 * dtype.bytes, 1, len(raw.shape))
    yield struct.pack(f"<{2 * len(raw.shape)}q", *raw.shape, *raw.strides)
    yield PLACE.pack(address, len(data))
    yield data


def share(arenas: Sequence[tuple[int, int, int]]) -> bytes:
    """Encode a SHARE frame: descriptor, bytes, address (0 for any)."""
    return struct.pack("<I", len(arenas)) + b"".join(struct.pack("<iQQ", *arena) for arena in arenas)


def go(queued: bool, recorded: bool = False) -> bytes:
    """Encode a GO frame."""
    return struct.pack("<I", QUEUED * queued | RECORDING * recorded)


@dataclass(frozen=True)
class CapturedOperations:
    """The captured operations of a call, unchecked."""

    fault: str  # why it cannot be repeated, if so
    bases: tuple[int, ...]  # of the arenas
    operations: bytes


def parse_recorded(payload: bytes) -> CapturedOperations:
    """Parse a RECORDED frame; raise struct.error if short."""
    # The operations stay bytes: only the replay process reads them, which is confined. The reason is cut
    # and stripped of control characters, because it is printed.
    (length,) = struct.unpack_from("<I", payload)
    text, at = payload[4 : 4 + length], 4 + length
    bases = struct.unpack_from("<3Q", payload, at)
    said = "".join(one for one in text[:MOST_SAID].decode("utf-8", "replace") if one.isprintable())
    return CapturedOperations(said, bases, payload[at + 24 :])


def play(artifact: str, recording: CapturedOperations) -> bytes:
    """Encode a PLAY frame."""
    path = artifact.encode()
    return struct.pack("<I", len(path)) + path + struct.pack("<3Q", *recording.bases) + recording.operations


@dataclass(frozen=True)
class Timed:
    """The worker's reply to a GO, unchecked."""

    answer: WorkerReply
    event_us: float
    host_us: float
    blocks: tuple[tuple[int, int], ...]  # coded address and bytes


def parse_timed(payload: bytes) -> Timed:
    """Parse a TIMED frame or raise MalformedReply."""
    # NaN and infinity are refused: they would pass every comparison of a rule. A time of zero counts as a
    # nanosecond, so that no ratio divides by zero.
    reader = _Reader(payload)
    event_us, host_us, count = reader.unpack(CLOCKS)
    if count > MOST_BLOCKS:
        raise MalformedReply(f"{count} live blocks")
    if not (isfinite(event_us) and isfinite(host_us)):
        raise MalformedReply(f"times of {event_us} and {host_us} µs")
    blocks = tuple((address, size) for address, size in (reader.unpack(PLACE) for _ in range(count)))
    return Timed(parse(reader.take(reader.left)), max(event_us, LEAST_US), max(host_us, LEAST_US), blocks)


def parse(payload: bytes) -> WorkerReply:
    """Parse a LOADED, READY or RESULT frame, or raise MalformedReply."""
    reader = _Reader(payload)
    status, cuda_error, seconds, length, count = reader.unpack(RESULT)
    text = reader.take(length)[:MOST_TEXT].decode("utf-8", "replace")
    if count > MOST_RESULTS:
        raise MalformedReply(f"{count} results; at most {MOST_RESULTS} are looked at")
    results = tuple(_claim(reader) for _ in range(count))
    if reader.left:
        raise MalformedReply(f"{reader.left} bytes follow the last result")
    try:
        return WorkerReply(Status(status), cuda_error, seconds, text, results)
    except ValueError:
        raise MalformedReply(f"status {status} does not exist") from None


def _claim(reader: "_Reader") -> ReportedTensor:
    """Parse one reported result, or raise MalformedReply."""
    # Sizes are checked before torch sees them: a product of sizes and strides above 2^63 overflows inside
    # torch.
    kind, _ = reader.unpack(VALUE)
    if kind != ValueKind.TENSOR:
        raise MalformedReply(f"a result of kind {kind}")
    code, bits, lanes, dimensions = reader.unpack(TENSOR)
    if (code, bits) not in DTYPES or lanes != 1 or not 0 <= dimensions <= MOST_DIMENSIONS:
        raise MalformedReply(f"a result of element type ({code}, {bits}, {lanes}) with {dimensions} dimensions")
    sizes = reader.unpack(struct.Struct(f"<{2 * dimensions}q"))
    address, length = reader.unpack(PLACE)
    if any(size < 0 for size in sizes):
        raise MalformedReply(f"a result with shape and strides {sizes}")
    raw = Raw(DTYPES[code, bits], sizes[:dimensions], sizes[dimensions:], reader.take(length))
    if not raw.is_addressable:
        raise MalformedReply(f"a result with shape {raw.shape} and strides {raw.strides} reaches 2^63 bytes")
    if raw.data and len(raw.data) != raw.span_bytes:
        raise MalformedReply(f"a result of {raw.span_bytes} bytes came with {len(raw.data)}")
    return ReportedTensor(raw, address)


class _Reader:
    """A reader of packed fields that checks bounds."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0

    @property
    def left(self) -> int:
        """The bytes that are not read yet."""
        return len(self._payload) - self._at

    def take(self, count: int) -> bytes:
        """Return the next bytes, or raise MalformedReply."""
        if count > self.left:
            raise MalformedReply(f"{count} bytes were due where {self.left} are left")
        self._at += count
        return self._payload[self._at - count : self._at]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the next fields, or raise MalformedReply."""
        return layout.unpack(self.take(layout.size))
