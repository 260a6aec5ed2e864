"""Fixed-layout frames between processes that do not trust each other; the same layout as native/frames.h.

A frame that is missing, late, short, extra, oversized or damaged is a `FrameError` value, which callers turn into a
verdict; it is never an exception, and nothing here unpickles. Knows nothing of what a payload means.
"""

import enum
import os
import select
import struct
import time
import zlib
from dataclasses import dataclass

MAGIC = 0x31465357  # "WSF1"
VERSION = 1
HEAD = struct.Struct("<IHHQ")
CHECK = struct.Struct("<I")
HEADER_BYTES = HEAD.size + CHECK.size
LIMIT_BYTES = 256 << 20
CHUNK_BYTES = 1 << 20


class Fault(enum.StrEnum):
    """How an exchange of frames failed."""

    MISSING = "missing"  # the other end closed before a first byte
    LATE = "late"
    SHORT = "short"  # it closed inside a frame
    EXTRA = "extra"  # something came after the last frame that was due
    JUNK = "junk"  # wrong magic or version
    OVERSIZED = "oversized"
    CHECKSUM = "checksum"
    KIND = "kind"  # a frame of another kind than the one due
    MALFORMED = "malformed"  # a payload that its reader can make nothing of


@dataclass(frozen=True)
class Frame:
    """One message: a kind that both ends know, and bytes."""

    kind: int
    payload: bytes = b""


@dataclass(frozen=True)
class FrameError:
    """A frame that did not come as it should."""

    fault: Fault
    detail: str


def encode(frame: Frame) -> bytes:
    """The frame's bytes on the wire."""
    head = HEAD.pack(MAGIC, VERSION, frame.kind, len(frame.payload))
    return head + CHECK.pack(zlib.crc32(frame.payload, zlib.crc32(head))) + frame.payload


class FrameReader:
    """Reads frames from a descriptor, never waiting past a deadline and never holding more than the limit."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def read(self, timeout_s: float, limit_bytes: int = LIMIT_BYTES) -> Frame | FrameError:
        """The next frame, or what is wrong with it; after a fault nothing more can be read with meaning."""
        deadline = time.monotonic() + timeout_s
        header = self._take(HEADER_BYTES, deadline, "header")
        if isinstance(header, FrameError):
            return header
        magic, version, kind, length = HEAD.unpack_from(header)
        if magic != MAGIC or version != VERSION:
            return FrameError(Fault.JUNK, f"magic {magic:#010x} version {version}, not {MAGIC:#010x} version {VERSION}")
        if length > limit_bytes:
            return FrameError(Fault.OVERSIZED, f"a frame of {length} bytes; at most {limit_bytes} are read")
        payload = self._take(length, deadline, "payload")
        if isinstance(payload, FrameError):
            return payload
        if zlib.crc32(payload, zlib.crc32(header[: HEAD.size])) != CHECK.unpack_from(header, HEAD.size)[0]:
            return FrameError(Fault.CHECKSUM, f"a frame of kind {kind} and {length} bytes is damaged")
        return Frame(kind, bytes(payload))

    def ready(self, timeout_s: float) -> bool:
        """Whether something can be read, or the other end is closed, in time."""
        return _ready(self.fd, select.POLLIN, time.monotonic() + timeout_s)

    def surplus(self) -> FrameError | None:
        """What was sent after the last frame that was due, once the other end is gone."""
        try:
            more = os.read(self.fd, 64)
        except BlockingIOError:
            return None
        return FrameError(Fault.EXTRA, f"{len(more)} or more bytes after the last frame") if more else None

    def _take(self, count: int, deadline: float, part: str) -> bytearray | FrameError:
        taken = bytearray()
        while len(taken) < count:
            if not _ready(self.fd, select.POLLIN, deadline):
                return FrameError(Fault.LATE, f"{len(taken)} of {count} bytes of its {part} came in time")
            try:
                more = os.read(self.fd, min(CHUNK_BYTES, count - len(taken)))
            except BlockingIOError:
                continue
            if not more and not taken and part == "header":
                return FrameError(Fault.MISSING, "the other end closed without it")
            if not more:
                return FrameError(
                    Fault.SHORT, f"the other end closed after {len(taken)} of {count} bytes of its {part}"
                )
            taken += more
        return taken


class FrameWriter:
    """Writes frames to a descriptor, never waiting past a deadline."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def write(self, frame: Frame, timeout_s: float) -> FrameError | None:
        """None when every byte was taken by the pipe."""
        deadline = time.monotonic() + timeout_s
        left = memoryview(encode(frame))
        while left:
            if not _ready(self.fd, select.POLLOUT, deadline):
                return FrameError(Fault.LATE, f"the other end left {len(left)} bytes unread")
            try:
                left = left[os.write(self.fd, left[:CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return FrameError(Fault.MISSING, "the other end closed and reads no more")
        return None


def _ready(fd: int, event: int, deadline: float) -> bool:
    """Whether the descriptor can be used (or has ended) before the deadline."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
