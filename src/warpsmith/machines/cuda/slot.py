"""A slot: a call's arguments between poison and guard zones."""
# Flags stay on the device until `read_flags` reads all of them, since each read waits for the device.

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from warpsmith.base import HarnessError
from warpsmith.machines.cuda.room import GUARD, aligned, span
from warpsmith.machines.worker import Raw, Value
from warpsmith.records import Numbers
from warpsmith.tasks.inputs import Value as TaskValue, Values, dtype_of, tensors

# Addresses differ between the processes, so frames carry an arena's number and an offset. Number 0 means
# that the address lies in no arena.
ARENA_SHIFT = 56  # of a coded address: the arena's number, from one on, stands above the offset
TORCH_BLOCK = 512  # bytes: torch's allocator rounds every size up to so many, and a kernel may read up to there


@dataclass(frozen=True)
class Edge:
    """The tensor argument at an end of the mapped memory."""

    # Nothing is mapped beyond the end, so an access past the tensor is an error of the GPU and not a
    # silent read of a neighbour.

    tensor: int  # its number among the tensors of all arguments
    is_end: bool


class Placed:
    """The arguments of one call inside a slot."""

    def __init__(self, arena: Tensor, place: range, poison: int, edge: Edge | None = None) -> None:
        self._arena, self._region, self._poison = arena, arena[place.start : place.stop], poison
        self.place, self._edge = place, edge  # in the arena of arguments
        self._at, self._end = GUARD, len(place)  # of the region: where the next tensor begins, where none may be
        self._codes: dict[int, int] = {}
        self._kept: list[tuple[int, Tensor, Tensor]] = []  # position, the copy in the slot, the judge's own
        self._zones: list[tuple[int, int]] = [(0, GUARD)]
        self._number = 0  # of the next tensor
        self._beside: list[Tensor] = []  # guard zones of a tensor at the end of the arena
        paint(self._region, poison)
        self.raws: tuple[Value, ...] = ()
        self.spans: list[tuple[int, int]] = []

    def put(self, arguments: Values) -> None:
        """Copy every argument to its place."""
        # A tensor at the start of the arena has no guard zone before it: reads before the first element
        # must reach unmapped memory.
        raws: list[Value] = []
        if self._edge is not None and not self._edge.is_end:
            size = span(tensors(arguments)[self._edge.tensor])
            self._at = aligned(size + GUARD)
            self._zones = [((size + 3) // 4 * 4, self._at)]
        for position, value in enumerate(arguments):
            pieces: list[Raw] = []
            for tensor in tensors((value,)):
                own = tensor.detach().to(self._region.device)
                copy = self._take_at_edge(own) if self._is_at_edge(own) else self._take(own)
                self._number += 1
                copy.copy_(own)
                self._kept.append((position, copy, own))
                pieces.append(self._raw(copy, own))
                self.spans.append((copy.data_ptr(), span(own)))
            raws.append(_value(value, pieces))
        self.raws = tuple(raws)

    def reserve(self, given: Sequence[Tensor]) -> None:
        """Reserve poisoned tensors for the candidate's results."""
        for like in given:
            self.raws = (*self.raws, self._raw(self._take(like), like))

    def address(self, raw: Raw) -> int:
        """Return the coded address of a tensor; 0 if empty."""
        return self._codes.get(id(raw), 0)

    @property
    def positions(self) -> list[int]:
        """The argument position of each tensor."""
        return [position for position, _, _ in self._kept]

    def changed(self) -> list[Tensor]:
        """Return for each tensor whether its bytes changed."""
        # Compared with the evaluator's own tensors, which lie in memory that the worker does not map.
        return [differ(bytes_of(copy), bytes_of(own)) for _, copy, own in self._kept]

    def overrun(self) -> list[Tensor]:
        """Return for each guard zone whether bytes changed."""
        tail = (self._at, self._end)
        zones = [*(self._region[a:b] for a, b in (*self._zones, tail)), *self._beside]
        return [is_spoilt(zone, self._poison) for zone in zones]

    def _require_room(self) -> None:
        """Raise HarnessError if the slot is too small."""
        if self._at > self._end:
            raise HarnessError(f"A slot of {self._end} bytes is too small for these arguments.")

    def _is_at_edge(self, like: Tensor) -> bool:
        """Return whether the next tensor lies at an end."""
        return self._edge is not None and self._edge.tensor == self._number and like.numel() > 0

    def _take_at_edge(self, like: Tensor) -> Tensor:
        """Place a tensor at an end of the mapped memory."""
        # At the far end the tensor begins a multiple of 512 bytes before the end. A kernel may read up to
        # there in torch as well, because torch's allocator rounds sizes up; a smaller distance would fail
        # honest vector loads.
        size, start = span(like), 0
        if self._edge is not None and self._edge.is_end:
            start = self._arena.numel() - -(-size // TORCH_BLOCK) * TORCH_BLOCK
            self._end = min(self._end, start - GUARD - self.place.start)
            self._require_room()
            self._beside = [self._arena[start - GUARD : start], self._arena[(start + size + 3) // 4 * 4 :]]
            for zone in self._beside:
                paint(zone, self._poison)
        return strided(self._arena[start : start + size], like.dtype, tuple(like.shape), tuple(like.stride()))

    def _take(self, like: Tensor) -> Tensor:
        """Place a tensor in the slot, with a guard zone after it."""
        size = span(like)
        start = self._at
        self._at = aligned(start + size + GUARD)
        self._require_room()
        self._zones.append(((start + size + 3) // 4 * 4, self._at))
        if size == 0:
            return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=self._region.device)
        return strided(self._region[start : start + size], like.dtype, tuple(like.shape), tuple(like.stride()))

    def _raw(self, copy: Tensor, like: Tensor) -> Raw:
        """Return a tensor's description and store its coded address."""
        raw = Raw(dtype_of(like), tuple(like.shape), tuple(like.stride()), b"")
        if raw.span_bytes:
            offset = copy.data_ptr() - self._arena.data_ptr()
            self._codes[id(raw)] = (1 << ARENA_SHIFT) | offset
        return raw


def _value(value: TaskValue, pieces: list[Raw]) -> Value:
    """Return an argument with raw tensors."""
    if isinstance(value, Tensor):
        return pieces[0]
    return tuple(pieces) if isinstance(value, tuple) else value


def new_poison() -> int:
    """Return a random word that is NaN in every float type."""
    # Each half word alone is a NaN of float16 and of bfloat16, the whole word one of float32 and, twice,
    # of float64. Random, so that a kernel can neither recognize poison nor return it as a known constant.
    high, low = 0xFFF0 | secrets.randbelow(14) + 1, 0xFF80 | secrets.randbelow(126) + 1
    return high << 16 | low


def _signed(word: int) -> int:
    """Return a word as a signed 32-bit integer."""
    return word - (1 << 32) if word >= 1 << 31 else word


def paint(region: Tensor, poison: int) -> None:
    """Fill a region with poison, in whole words."""
    if region.numel() >= 4:
        region[: region.numel() // 4 * 4].view(torch.int32).fill_(_signed(poison))


def read_flags(*groups: list[Tensor]) -> list[list[bool]]:
    """Read flags of all groups with one device wait."""
    # Each read of a value from the device waits for its queue, and there are dozens of flags a call.
    every = [flag for group in groups for flag in group]
    said = iter(torch.stack(every).tolist() if every else [])
    return [list(islice(said, len(group))) for group in groups]


def is_spoilt(region: Tensor, poison: int) -> Tensor:
    """Return whether a painted region changed."""
    return (region[: region.numel() // 4 * 4].view(torch.int32) != _signed(poison)).any()


def holds_poison(tensor: Tensor, poison: int) -> Tensor:
    """Return whether an element still holds this call's poison."""
    # Only float types can tell: every bit pattern of an integer is a legal value, so for those only the
    # comparison with the reference finds an unwritten result.
    if dtype_of(tensor).numbers is not Numbers.ROUNDED:
        return torch.zeros((), dtype=torch.bool, device=tensor.device)
    if tensor.element_size() == 2:
        bits = tensor.view(torch.int16)
        halves = [half - (1 << 16) if half >= 1 << 15 else half for half in (poison & 0xFFFF, poison >> 16)]
        return ((bits == halves[0]) | (bits == halves[1])).any()
    if tensor.element_size() == 4:
        return (tensor.view(torch.int32) == _signed(poison)).any()
    return (tensor.view(torch.int64) == _signed(poison) << 32 | poison).any()


def strided(raw: Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return bytes as a tensor with shape and strides."""
    return raw.view(dtype).as_strided(tuple(shape), tuple(strides))


def bytes_of(tensor: Tensor) -> Tensor:
    """Return the bytes from the first element to the last."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    count = span(tensor) // tensor.element_size()
    return tensor.as_strided((count,), (1,)).view(torch.uint8)


def differ(one: Tensor, other: Tensor) -> Tensor:
    """Return whether two byte ranges of equal length differ."""
    # Comparing eight bytes at a time is eight times fewer elements; torch allows such a view only if
    # offset, length and address are multiples of eight.
    wide = not any(raw.numel() % 8 or raw.storage_offset() % 8 or raw.data_ptr() % 8 for raw in (one, other))
    return (one.view(torch.int64) != other.view(torch.int64)).any() if wide else (one != other).any()
