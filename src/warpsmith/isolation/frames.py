"""Fixed-layout frames between processes that do not trust each other; the same layout as native/frames.h.

A frame that is missing, late, short, extra, oversized or damaged is a `FrameError` value, which callers turn into a
verdict; it is never an exception, and nothing is unpickled. The meaning of a payload is the caller's.
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


class FrameFault(enum.StrEnum):
    """The reason for a failed exchange of frames."""

    MISSING = "missing"  # the other end closed before the first byte
    LATE = "late"
    SHORT = "short"  # the other end closed inside a frame
    EXTRA = "extra"  # bytes came after the last frame that was due
    JUNK = "junk"  # wrong magic or version
    OVERSIZED = "oversized"
    CHECKSUM = "checksum"
    KIND = "kind"  # a frame of another kind than the one due
    MALFORMED = "malformed"  # a payload that its reader cannot parse


@dataclass(frozen=True)
class Frame:
    """A message of a known kind."""

    kind: int
    payload: bytes = b""


@dataclass(frozen=True)
class FrameError:
    """A missing or wrong frame, with the reason."""

    fault: FrameFault
    detail: str


def encode(frame: Frame) -> bytes:
    """Return a frame's bytes as they are sent."""
    head = HEAD.pack(MAGIC, VERSION, frame.kind, len(frame.payload))
    return head + CHECK.pack(zlib.crc32(frame.payload, zlib.crc32(head))) + frame.payload


class FrameReader:
    """A reader of frames with a deadline and a limit of bytes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        # A blocking read could not keep the deadline when the other end stops inside a frame.
        os.set_blocking(fd, False)

    def read(self, timeout_s: float, limit_bytes: int = LIMIT_BYTES) -> Frame | FrameError:
        """Return the next frame, or its error, after which the stream is unreadable."""
        deadline = time.monotonic() + timeout_s
        header = self._take(HEADER_BYTES, deadline, "header")
        if isinstance(header, FrameError):
            return header
        magic, version, kind, length = HEAD.unpack_from(header)
        if magic != MAGIC or version != VERSION:
            return FrameError(
                FrameFault.JUNK, f"magic {magic:#010x} version {version}, not {MAGIC:#010x} version {VERSION}"
            )
        # The length is the other end's claim: it is checked before any byte of the payload is read.
        if length > limit_bytes:
            return FrameError(FrameFault.OVERSIZED, f"a frame of {length} bytes; at most {limit_bytes} are read")
        payload = self._take(length, deadline, "payload")
        if isinstance(payload, FrameError):
            return payload
        # The checksum finds bytes that foreign code printed into the channel; it does not authenticate the sender.
        if zlib.crc32(payload, zlib.crc32(header[: HEAD.size])) != CHECK.unpack_from(header, HEAD.size)[0]:
            return FrameError(FrameFault.CHECKSUM, f"a frame of kind {kind} and {length} bytes is damaged")
        return Frame(kind, bytes(payload))

    def ready(self, timeout_s: float) -> bool:
        """Return whether the descriptor becomes readable in time."""
        return _ready(self.fd, select.POLLIN, time.monotonic() + timeout_s)

    def read_surplus(self) -> FrameError | None:
        """Return an error if bytes follow the last due frame. Call it after the other end has closed."""
        try:
            more = os.read(self.fd, 64)
        except BlockingIOError:
            return None
        return FrameError(FrameFault.EXTRA, f"{len(more)} or more bytes after the last frame") if more else None

    def _take(self, count: int, deadline: float, part: str) -> bytearray | FrameError:
        taken = bytearray()
        while len(taken) < count:
            if not _ready(self.fd, select.POLLIN, deadline):
                return FrameError(FrameFault.LATE, f"{len(taken)} of {count} bytes of its {part} came in time")
            try:
                # A malicious length cannot reserve memory: at most one chunk is held beyond the bytes that arrived.
                more = os.read(self.fd, min(CHUNK_BYTES, count - len(taken)))
            except BlockingIOError:
                continue
            if not more and not taken and part == "header":
                return FrameError(FrameFault.MISSING, "the other end closed without it")
            if not more:
                return FrameError(
                    FrameFault.SHORT, f"the other end closed after {len(taken)} of {count} bytes of its {part}"
                )
            taken += more
        return taken


class FrameWriter:
    """A writer of frames that waits until a deadline."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def write(self, frame: Frame, timeout_s: float) -> FrameError | None:
        """Write a frame. Return None if the pipe took every byte, else the error."""
        deadline = time.monotonic() + timeout_s
        left = memoryview(encode(frame))
        while left:
            if not _ready(self.fd, select.POLLOUT, deadline):
                return FrameError(FrameFault.LATE, f"the other end left {len(left)} bytes unread")
            try:
                left = left[os.write(self.fd, left[:CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return FrameError(FrameFault.MISSING, "the other end closed and reads no more")
        return None


def _ready(fd: int, event: int, deadline: float) -> bool:
    """Return whether the descriptor is ready in time."""
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
