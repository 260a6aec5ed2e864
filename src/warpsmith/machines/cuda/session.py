"""A candidate on a real GPU over many calls."""

import struct
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from warpsmith.base import DeviceMemoryError, HarnessError
from warpsmith.isolation import Frame, FrameError, FrameFault
from warpsmith.machines.cuda.access import CUDA, FIRST_FD, GpuAccess
from warpsmith.machines.cuda.memory import OUT_OF_MEMORY, are_bases
from warpsmith.machines.cuda.room import ALIGNMENT, Buffers, Room, aligned, span, taken_bytes
from warpsmith.machines.cuda.slot import (
    ARENA_SHIFT,
    Edge,
    Placed,
    bytes_of,
    differ,
    holds_poison,
    new_poison,
    paint,
    read_flags,
    strided,
)
from warpsmith.machines.cuda.watch import MemoryMeter, MemoryWatch
from warpsmith.machines.hardware import is_held_alone
from warpsmith.machines.worker import (
    CAPTURED_BYTES,
    CapturedOperations,
    Clocks,
    Conversation,
    FrameKind,
    MalformedReply,
    Mode,
    ReportedTensor,
    Shown,
    Timed,
    WorkerReply,
    call,
    end_silent,
    ending_failure,
    go,
    parse_recorded,
    parse_timed,
    share,
    status_failure,
)
from warpsmith.records import Confined, Failure, Reason
from warpsmith.tasks.inputs import Values, tensors

# Indices of the arenas; the third one holds the worker's snapshot of the results.
ARGUMENTS, RESULTS = 0, 1  # arenas
# The same limit as that of the worker's allocator, which serves `cudaMalloc` from the arena.
MOST_KEPT = 512 << 20  # bytes that a candidate keeps from call to call: as many as the runtime is asked for
CALL_S = 60.0  # the longest that one call may take
OUTSIDE = "Result {number} does not lie in the memory that a call of this size is given."
TOO_LARGE = "The results are together larger than the memory that a call of this size is given."
NO_BLOCK = "It says that it keeps memory that nobody was given."


@dataclass(frozen=True)
class RepeatableCall:
    """A captured call with the candidate's memory before it."""

    recording: CapturedOperations
    results: tuple[ReportedTensor, ...]
    live: tuple[tuple[int, int], ...]  # blocks that it holds after the call
    contents: tuple[Tensor, ...]  # of the blocks that it held before the call, as they were then
    host_us: float = 0.0  # until the candidate's function returned: its own claim
    held: tuple[tuple[int, int], ...] = ()  # blocks that it held before the call
    edge: Edge | None = None  # the argument that lay against an end of the mapped memory


class CudaSession:
    """The evaluator's side of one worker on a GPU."""

    # The worker shares its process with native code of the candidate, so each of its reports is a claim:
    # addresses are range-checked, results are read from arenas that this process maps, and only this
    # process compares.

    device = "cuda"
    arenas: Room  # how large all of its memory is

    def __init__(
        self,
        artifact: Path,
        entry: str,
        runtime: Path,
        room: Room | Buffers,
        call_s: float = CALL_S,
        bases: Sequence[int] = (0, 0, 0),
        meter: MemoryMeter | None = None,
        gpu: GpuAccess = CUDA,
    ) -> None:
        """Store the arguments; `__enter__` starts the worker."""
        self._artifact, self._entry, self._runtime = artifact, entry, runtime
        self._given, self._call_s, self._bases = room, call_s, bases
        self._meter, self.gpu = meter, gpu
        self._watch: MemoryWatch | None = None
        self._open = ExitStack()
        self._failure: Failure | None = None
        self._live: tuple[tuple[int, int], ...] = ()
        self._claims: tuple[ReportedTensor, ...] = ()
        self._edge: Edge | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opening:  # nothing stays behind where one of the steps fails
            self._begin(opening)
            self._load(opening)
            self._open = opening.pop_all()
        return self

    def _begin(self, opening: ExitStack) -> None:
        """Prepare buffers, flush and worker; raise DeviceMemoryError or HarnessError."""
        # Allocations of ours come first: once the candidate runs, it may take the rest of the GPU's
        # memory, and a failure of ours would be its doing.
        self.gpu.prepare_flush()
        given = self._given
        buffers = given if isinstance(given, Buffers) else opening.enter_context(Buffers(given, self.gpu))
        self.arenas = self._room = buffers.room
        self._arenas, self._views = buffers.arenas, buffers.views
        self._child = self.gpu.start_worker(self._artifact, self._runtime, self._arenas, opening)
        self._talk = Conversation(self._child, self._call_s)
        shared = [
            (FIRST_FD + place, arena.bytes, base)
            for place, (arena, base) in enumerate(zip(self._arenas, self._bases, strict=True))
        ]
        answer = self._talk.ask(Frame(FrameKind.SHARE, share(shared)), FrameKind.LOADED)
        if isinstance(answer, WorkerReply) and lacks_memory(answer):
            raise DeviceMemoryError(f"A worker found no memory on the GPU: {answer.text}")
        self._settle(answer)
        if self._failure is not None:
            raise HarnessError(f"The worker could not take the shared memory: {self._failure.detail}")

    def _load(self, opening: ExitStack) -> None:
        """Load the artifact under the memory watch."""
        # The watch starts before the artifact: its constructors already run candidate code in the worker.
        if self._meter is not None:
            child, reserved = self._child, self.gpu.reserved_bytes
            watch = MemoryWatch(self._meter, lambda: child.processes, child.kill, is_held_alone(), reserved)
            self._watch = opening.enter_context(watch)
        self._settle(self._talk.load(self._artifact))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._views = []
        self._open.close()

    def use(self, room: Room) -> None:
        """Use another layout within the arenas, freshly poisoned."""
        self._room = room
        self._poison_free(new_poison(), self._views[RESULTS])

    @property
    def confined(self) -> Confined:
        """The achieved confinement of the worker."""
        return self._child.confined

    @property
    def failure(self) -> Failure | None:
        """The failure that ended the worker, or None."""
        return self._failure

    def call(
        self,
        arguments: Values,
        given: Sequence[Tensor] = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        """Make one call on a slot; return its observation."""
        return self._call(arguments, given, slot, mode, cold and timed, timed)

    def record(
        self, arguments: Values, given: Sequence[Tensor] = (), edge: Edge | None = None
    ) -> tuple[Shown, RepeatableCall | str]:
        """Make and capture one call; return a text if the capture fails."""
        self._edge = edge
        try:
            return self._record(arguments, given)
        finally:
            self._edge = None

    def _record(self, arguments: Values, given: Sequence[Tensor]) -> tuple[Shown, RepeatableCall | str]:
        """Capture a call on slot 0, with the candidate's memory before it."""
        # The candidate's blocks are copied before the call: a replay begins from this state. Above 512
        # MiB nothing is copied, and the capture is refused below, after the call has been checked.
        held = self._live
        contents = tuple(self._kept_bytes(block).cpu() for block in held if sum(size for _, size in held) <= MOST_KEPT)
        shown = self._call(arguments, given, 0, Mode.IDLE, cold=True, timed=True, recorded=True)
        if shown.failure or shown.clocks is None:
            return shown, "the call failed"
        found = self._talk.exchange(Frame(FrameKind.RECORD), FrameKind.RECORDED, CAPTURED_BYTES)
        if isinstance(found, FrameError):
            self._settle(found)
            return Shown(self._failure), found.detail
        try:
            recording = parse_recorded(found.payload)
        except struct.error:
            return shown, "what was told of the call cannot be read"
        if recording.fault:
            return shown, recording.fault
        if not are_bases(recording.bases):
            return shown, "what was told of the call cannot be read"
        if len(contents) < len(held):
            return shown, "it keeps more memory from call to call than is kept for it"
        return shown, RepeatableCall(recording, self._claims, self._live, contents, held=held, edge=self._edge)

    def _kept_bytes(self, block: tuple[int, int]) -> Tensor:
        """Return a block's bytes inside the arena of results."""
        # A block elsewhere is a false report and gives no bytes; `_is_block` refuses the report itself.
        arena, start = _decoded(block[0])
        view = self._views[RESULTS] if arena == RESULTS else self._views[RESULTS][:0]
        return view[start : start + block[1]]

    def _call(
        self,
        arguments: Values,
        given: Sequence[Tensor],
        slot: int,
        mode: Mode,
        cold: bool,
        timed: bool,
        recorded: bool = False,
    ) -> Shown:
        """Prepare, make and observe one call."""
        # The order is part of the protocol: poison and fresh arguments, then the flush, then ARM, which
        # makes the worker ready, then GO. The evaluator's clock runs from GO to the first byte of the
        # answer only, so the work of preparing is outside of it.
        if self._failure is not None:
            return Shown(self._failure)
        poison = new_poison()
        placed = self._fill(slot, arguments, given, poison)
        flush_us = self._quiet(cold)
        awake = timed or mode is Mode.QUEUED  # else what is late could run before the gate does
        payload = call(self._entry, placed.raws, placed.address, awake=awake)
        ready = self._talk.ask(Frame(FrameKind.ARM, payload), FrameKind.READY)
        if not self._settle(ready):
            return Shown(self._failure)
        exchanged = self._talk.timed(Frame(FrameKind.GO, go(mode is Mode.QUEUED, recorded)), FrameKind.TIMED)
        told = self._timed(exchanged.answer)
        if told is None:
            return Shown(self._failure)
        clocks = Clocks(told.event_us, told.host_us, exchanged.seconds * 1e6, flush_us)
        return self._look(placed, told, poison, clocks, mode)

    def _quiet(self, cold: bool) -> float:
        """Flush or synchronize; return the flush's microseconds, else 0."""
        if cold:
            return self.gpu.flush()
        self.gpu.synchronize()
        return 0.0

    def _told(self, timed: Timed) -> Timed:
        """Return the worker's report unchanged."""
        return timed

    def _timed(self, answer: Frame | FrameError) -> Timed | None:
        """Return the parsed answer, or None after a failure."""
        if isinstance(answer, FrameError):
            self._settle(answer)
            return None
        try:
            timed = parse_timed(answer.payload)
        except (MalformedReply, struct.error) as malformed:
            self._settle(FrameError(FrameFault.MALFORMED, str(malformed)))
            return None
        return self._told(timed) if self._settle(timed.answer) else None

    def _settle(self, answer: WorkerReply | FrameError) -> bool:
        """Return whether the worker can go on; raise DeviceMemoryError for neighbours."""
        # The order attributes errors. Memory that neighbours hold raises DeviceMemoryError and repeats
        # the stage alone; an excess of this worker is its failure; a lack of memory below its share is
        # nobody's fault. Only then does the answer count. A stored failure is repeated by every later
        # call.
        watch = self._watch
        if watch is not None and watch.is_suspect:
            raise DeviceMemoryError(
                "Several workers left little of the GPU's memory, and the driver does not say which."
            )
        if watch is not None and watch.excess:
            self._child.kill()
            self._failure = Failure(Reason.MEMORY_LIMIT, watch.excess)
        elif watch is not None and isinstance(answer, WorkerReply) and lacks_memory(answer) and watch.leaves_little:
            raise DeviceMemoryError("A call found no memory on the GPU, and its worker was below its share.")
        elif isinstance(answer, FrameError):
            ended = end_silent(self._child, answer)
            self._failure = ending_failure(ended, ended.describe(self._child.policy), answer)
        else:
            self._failure = status_failure(answer)
        return self._failure is None

    def _fill(self, slot: int, arguments: Values, given: Sequence[Tensor], poison: int) -> Placed:
        """Place arguments and poison all other memory of a call."""
        # Poison is new for each call. A result that an earlier call left in the same memory therefore
        # never looks written.
        start = slot % self._room.slots * self._room.slot_bytes
        watched = taken_bytes((*tensors(arguments), *given)) + self.gpu.margins.tail_bytes
        taken = min(self._room.slot_bytes, aligned(watched))
        self._poison_free(poison, self._views[RESULTS][: self._room.results_bytes])
        placed = Placed(self._views[ARGUMENTS], range(start, start + taken), poison, self._edge)
        placed.put(arguments)
        placed.reserve(given)
        return placed

    def _poison_free(self, poison: int, view: Tensor) -> None:
        """Poison the results arena around the candidate's blocks."""
        # Blocks that the candidate holds over calls are its state and stay. They are sorted by address,
        # so that one pass paints the gaps.
        at = 0
        for code, size in sorted(self._live):
            arena, offset = _decoded(code)
            if arena == RESULTS and at <= offset <= view.numel():
                paint(view[at:offset], poison)
                at = offset + aligned(size)
        paint(view[at:], poison)

    def _look(self, placed: Placed, timed: Timed, poison: int, clocks: Clocks, mode: Mode) -> Shown:
        """Observe results and memory after a call."""
        # The copies come first: a kernel that is still running could write the right values between our
        # look at the results and the comparison.
        found = [self._result(claim, placed) for claim in timed.answer.results]
        if said := self._nonsense(found, timed, placed):
            self._failure = Failure(Reason.BAD_ANSWER, said)
            return Shown(self._failure)
        results = [tensor for tensor in found if tensor is not None]
        self._live, self._claims = _kept(timed), timed.answer.results
        copies = tuple(tensor.clone() for tensor in results)  # first: what is late must not be in them
        late = self._late(timed.answer.results, results) if mode is Mode.QUEUED else []
        held = [holds_poison(tensor, poison) for tensor in results]
        seen = read_flags(placed.changed(), held, placed.overrun(), late)
        changed, unwritten, overrun, unsettled = seen
        return Shown(
            failure=None,
            results=copies,
            changed=tuple(
                dict.fromkeys(position for position, yes in zip(placed.positions, changed, strict=True) if yes)
            ),
            aliased=_aliased(results, placed.spans),
            unwritten=tuple(place for place, yes in enumerate(unwritten) if yes),
            overrun=any(overrun),
            settled=not any(unsettled),
            clocks=clocks,
            poison=poison.to_bytes(4, "little"),
        )

    def _nonsense(self, found: Sequence[Tensor | None], timed: Timed, placed: Placed) -> str:
        """Return the error in a report's places, or an empty text."""
        if None in found:
            return OUTSIDE.format(number=found.index(None))
        copied = sum(claim.tensor.copied_bytes for claim in timed.answer.results)
        if copied > self._room.results_bytes + len(placed.place):  # views of the same bytes
            return TOO_LARGE
        return "" if all(map(self._is_block, timed.blocks)) else NO_BLOCK

    def _is_block(self, block: tuple[int, int]) -> bool:
        """Return whether a kept block can exist."""
        # Painting works in whole words up to the block, so an unaligned block would leave unpainted bytes
        # beside it.
        (arena, offset), size = _decoded(block[0]), block[1]
        return arena == RESULTS and offset % ALIGNMENT == 0 and offset + size <= self._views[RESULTS].numel()

    def _result(self, claim: ReportedTensor, placed: Placed) -> Tensor | None:
        """Return a reported tensor, or None outside the poisoned memory."""
        # A result must lie in memory that held this call's poison, else an unwritten result would show
        # nothing. Strides may repeat elements, so the size of a copy is bounded as well as the span.
        arena, offset = _decoded(claim.address)
        raw = claim.tensor
        dtype: torch.dtype = getattr(torch, raw.dtype)
        if raw.span_bytes == 0:
            return torch.empty_strided(raw.shape, raw.strides, dtype=dtype, device=self.gpu.torch_device)
        places = {ARGUMENTS: placed.place, RESULTS: range(self._room.results_bytes)}
        place = places.get(arena, range(0))
        if offset not in place or offset + raw.span_bytes > place.stop or offset % dtype.itemsize:
            return None
        if raw.copied_bytes > len(place):  # elements that share memory: a copy could be of any size
            return None
        return strided(self._views[arena][offset : offset + raw.span_bytes], dtype, raw.shape, raw.strides)

    def _late(self, claims: Sequence[ReportedTensor], results: Sequence[Tensor]) -> list[Tensor]:
        """Return for each result whether it changed after its stream."""
        # The worker copied the results at the end of the stream. A difference to their bytes now means
        # that work ran which the stream did not wait for.
        at, found = ALIGNMENT, list[Tensor]()
        for claim, result in zip(claims, results, strict=True):
            size = claim.tensor.span_bytes
            if at + size > self._arenas[2].bytes:
                break
            found.append(differ(self._views[2][at : at + size], bytes_of(result)))
            at += aligned(size)
        return found


def lacks_memory(reply: WorkerReply) -> bool:
    """Return whether the GPU refused the worker memory."""
    return reply.cuda_error == OUT_OF_MEMORY or reply.text.endswith(f"driver error {OUT_OF_MEMORY}")


def _decoded(code: int) -> tuple[int, int]:
    """Return arena and offset of an address; -1 for none."""
    return (code >> ARENA_SHIFT) - 1, code & ((1 << ARENA_SHIFT) - 1)


def _kept(timed: Timed) -> tuple[tuple[int, int], ...]:
    """Return the reported blocks that no result touches."""
    # A block with a result inside must be poisoned again before the next call. Alignment counts as part
    # of a block, since painting leaves it out as well.
    results = [(claim.address, claim.address + max(1, claim.tensor.span_bytes)) for claim in timed.answer.results]
    return tuple(
        b for b in timed.blocks if not any(b[0] < end and start < b[0] + aligned(b[1]) for start, end in results)
    )


def _aliased(results: Sequence[Tensor], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return results that overlap arguments or earlier results."""
    seen, found = list(spans), []
    for place, tensor in enumerate(results):
        start, size = tensor.data_ptr(), span(tensor)
        if any(start < a + n and a < start + size for a, n in seen if n and size):
            found.append(place)
        seen.append((start, size))
    return tuple(found)
