"""The memory layout of a worker on a real GPU."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from torch import Tensor

from warpsmith.machines.cuda.access import CUDA, MARGINS, GpuAccess, Margins
from warpsmith.tasks.inputs import Values, tensors
from warpsmith.tasks.reference import Problem

# A guard zone on each side catches an overrun by up to 1 KiB without a checker. 256 bytes is the
# alignment that torch's allocator promises, which vector loads rely on.
GUARD, ALIGNMENT = 1024, 256


@dataclass(frozen=True)
class Room:
    """Sizes in bytes of a worker's buffers."""

    slot_bytes: int
    results_bytes: int
    slots: int = 4
    snapshot_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of all parts together."""
        return self.slot_bytes * self.slots + self.results_bytes + self.snapshot_bytes


def room_for(arguments: Values, results: Sequence[Tensor], margins: Margins = MARGINS) -> Room:
    """Return the memory layout for one call."""
    # Results count three times over, beside the scratch: a candidate may keep earlier results and make
    # copies.
    taken = taken_bytes((*tensors(arguments), *results))
    given = sum(span(tensor) for tensor in results)
    return Room(aligned(taken), 3 * given + taken + margins.scratch_bytes, snapshot_bytes=taken_bytes(results))


def taken_bytes(placed: Sequence[Tensor]) -> int:
    """Return the bytes of tensors with their guard zones."""
    return GUARD + sum(span(tensor) + 2 * GUARD + ALIGNMENT for tensor in placed)


def room_for_all(calls: Iterable[Problem], margins: Margins = MARGINS) -> Room:
    """Return the layout for the largest of several calls."""
    return _largest([room_for(call.arguments, call.native, margins) for call in calls])


def room_around(first: Room, other: Room) -> Room:
    """Return arenas that hold either of two layouts."""
    # The check uses four slots, the capture one larger slot. Both use the same arenas, since the captured
    # addresses must stay valid.
    return _largest([replace(one, slot_bytes=one.slot_bytes * one.slots, slots=1) for one in (first, other)])


def _largest(rooms: Sequence[Room]) -> Room:
    """Return the maximum of each part over layouts."""
    return Room(
        max(one.slot_bytes for one in rooms),
        max(one.results_bytes for one in rooms),
        rooms[0].slots,
        max(one.snapshot_bytes for one in rooms),
    )


class Buffers:
    """Arenas of one layout, for several workers in turn."""

    def __init__(self, room: Room, gpu: GpuAccess = CUDA) -> None:
        self.room, self._gpu = room, gpu
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._gpu.release_cache()
        # Three arenas: arguments, which the worker should not write; results and scratch; and a snapshot
        # of the results, which the worker copies at the end of its stream.
        sizes = (self.room.slot_bytes * self.room.slots, self.room.results_bytes, self.room.snapshot_bytes)
        with ExitStack() as opening:  # nothing stays behind where there is no memory for one of them
            self.arenas = [opening.enter_context(self._gpu.allocate(size)) for size in sizes]
            self.views = [arena.view() for arena in self.arenas]
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.views = []
        self._open.close()


def aligned(count: int) -> int:
    """Return a count rounded up to 256 bytes."""
    return -(-count // ALIGNMENT) * ALIGNMENT


def span(tensor: Tensor) -> int:
    """Return the bytes from the first element to the last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
