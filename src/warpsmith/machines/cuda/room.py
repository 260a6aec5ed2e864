"""Memory that a worker on a real GPU is given: how much, and the arenas of it that two processes map."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from torch import Tensor

from warpsmith.machines.cuda.memory import Arena, give_back
from warpsmith.tasks.inputs import Values, tensors
from warpsmith.tasks.reference import Problem

GUARD, ALIGNMENT = 1024, 256
SCRATCH = 1 << 30  # for the candidate
TAIL = 64 << 20  # of a slot behind the last argument: painted and watched, where a slot has room for it


@dataclass(frozen=True)
class Room:
    """How much buffers hold: bytes of arguments a slot, of results and scratch, slots, and bytes of results alone."""

    slot_bytes: int
    results_bytes: int
    slots: int = 4
    snapshot_bytes: int = 0

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.slot_bytes * self.slots + self.results_bytes + self.snapshot_bytes


def room_for(arguments: Values, results: Sequence[Tensor]) -> Room:
    """Room for calls of this size: results three times over, and scratch."""
    taken = taken_bytes((*tensors(arguments), *results))
    given = sum(span(tensor) for tensor in results)
    return Room(aligned(taken), 3 * given + taken + SCRATCH, snapshot_bytes=taken_bytes(results))


def taken_bytes(placed: Sequence[Tensor]) -> int:
    """Bytes of these tensors with the guard zones around them."""
    return GUARD + sum(span(tensor) + 2 * GUARD + ALIGNMENT for tensor in placed)


def room_for_all(calls: Iterable[Problem]) -> Room:
    """Room for the largest of several calls."""
    return _largest([room_for(call.arguments, call.native) for call in calls])


def room_around(first: Room, other: Room) -> Room:
    """Arenas that hold the slots of either."""
    return _largest([replace(one, slot_bytes=one.slot_bytes * one.slots, slots=1) for one in (first, other)])


def _largest(rooms: Sequence[Room]) -> Room:
    """Of rooms with as many slots each."""
    return Room(
        max(one.slot_bytes for one in rooms),
        max(one.results_bytes for one in rooms),
        rooms[0].slots,
        max(one.snapshot_bytes for one in rooms),
    )


class Buffers:
    """The memory of a room: of one worker, or of several that have it one after the other."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._open = ExitStack()

    def __enter__(self) -> Self:
        give_back()
        sizes = (self.room.slot_bytes * self.room.slots, self.room.results_bytes, self.room.snapshot_bytes)
        with ExitStack() as opening:  # nothing stays behind where there is no memory for one of them
            self.arenas = [opening.enter_context(Arena(size)) for size in sizes]
            self.views = [arena.view() for arena in self.arenas]
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.views = []
        self._open.close()


def aligned(count: int) -> int:
    """As many bytes or a few more: every tensor begins where torch's allocator would let it begin."""
    return -(-count // ALIGNMENT) * ALIGNMENT


def span(tensor: Tensor) -> int:
    """Bytes from the first element to the last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
