"""The evaluator's connection to an executor."""
# The frames are those of native/executor/wire.h.

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pydantic import ValidationError

from warpsmith.base import HarnessError
from warpsmith.machines.virtual.facts import Facts

MAGIC = 0x57533031
# Little endian without padding, as in wire.h: magic, call, sixteen words, bytes of payload.
REQUEST = struct.Struct("<II16QQ")
REPLY = struct.Struct("<Ii8QQ")
FINISH, FORGET = 1, 2
MOST_BYTES = 8 << 30


class ControlCall(IntEnum):
    """Requests of the evaluator process, numbered as in wire.h."""

    ALLOCATE = 200
    WRITE = 201
    READ = 202
    FILL = 203
    FACTS = 204
    MEMORY = 205


class Gone(Exception):
    """The end or the silence of the executor."""


class Mute(Gone):
    """The silence of an executor that still runs."""

    # A candidate can cause it with an endless kernel or half a request, so it is a time limit of the
    # candidate and not an error of ours.


@dataclass(frozen=True)
class ControlReply:
    """The reply to one control request."""

    error: int
    words: tuple[int, ...]
    payload: bytes


class Control:
    """The connection of the evaluator process to an executor."""

    # A socket of its own, apart from the worker's: a candidate can neither read nor forge replies on it.
    # A reply that is late raises Mute, a closed socket Gone.

    def __init__(self, line: socket.socket, timeout_s: float = 60.0) -> None:
        self._line = line
        self._line.settimeout(timeout_s)

    def allocate(self, count: int) -> int:
        """Allocate `count` bytes; return their address or raise HarnessError."""
        reply = self._ask(ControlCall.ALLOCATE, [count])
        if reply.error or not reply.words[0]:
            raise HarnessError(f"The virtual GPU has no {count} bytes left for arguments; use a smaller case.")
        return reply.words[0]

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes of device memory."""
        free, total = self._ask(ControlCall.MEMORY, []).words[:2]
        return free, total

    def write(self, address: int, data: bytes) -> None:
        """Write device memory; raise HarnessError outside an allocation."""
        if self._ask(ControlCall.WRITE, [address], data).error:
            raise HarnessError(f"{len(data)} bytes at {address:#x} of the virtual GPU cannot be written.")

    def fill(self, address: int, value: int, element_bytes: int, count: int) -> None:
        """Fill memory with `count` equal elements; raise HarnessError if refused."""
        if self._ask(ControlCall.FILL, [address, value, element_bytes, count]).error:
            raise HarnessError(f"{count} elements at {address:#x} of the virtual GPU cannot be filled.")

    def read(self, address: int, count: int) -> bytes | None:
        """Read device memory, or None outside one allocation."""
        reply = self._ask(ControlCall.READ, [address, count])
        return None if reply.error or len(reply.payload) != count else reply.payload

    def answers(self) -> bool:
        """Return whether the executor lives; raise Mute if silent."""
        try:
            self._ask(ControlCall.READ, [0, 0])
        except Mute:
            raise
        except Gone:
            return False
        return True

    def facts(self, finish: bool = True, forget: bool = True) -> Facts:
        """Return findings and counters; raise HarnessError if unreadable."""
        # `finish` first runs work that no stream waited for, as a device synchronize would. `forget` then
        # clears both, so that the next call starts from zero.
        reply = self._ask(ControlCall.FACTS, [FINISH * finish | FORGET * forget])
        try:
            return Facts.parse(reply.payload)
        except ValidationError as error:
            raise HarnessError(f"The executor's facts cannot be read: {error}") from None

    def _ask(self, call: ControlCall, words: Sequence[int], data: bytes = b"") -> ControlReply:
        """Send one request; return its reply or raise Gone."""
        padded = [*words, *(0,) * (16 - len(words))]
        try:
            self._line.sendall(REQUEST.pack(MAGIC, call, *padded, len(data)))
            self._line.sendall(data)
            _, error, *rest = REPLY.unpack(self._take(REPLY.size))
            return ControlReply(error, tuple(rest[:8]), self._take(rest[8]))
        except TimeoutError:
            raise Mute(f"no answer in {self._line.gettimeout():g} s") from None
        except OSError as error:
            raise Gone(str(error)) from None

    def _take(self, count: int) -> bytes:
        """Receive exactly `count` bytes, or raise Gone."""
        # The executor has parsed bytes of a candidate, so its announced size is bounded before memory is
        # allocated.
        if count > MOST_BYTES:
            raise Gone(f"it announced {count} bytes")
        taken = bytearray(count)
        view, got = memoryview(taken), 0
        while got < count:
            more = self._line.recv_into(view[got:])
            if not more:
                raise Gone("it closed its end")
            got += more
        return bytes(taken)
