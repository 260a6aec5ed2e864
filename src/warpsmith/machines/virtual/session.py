"""A candidate on the virtual GPU over many calls."""
# The candidate's own state persists; all arguments are fresh. Every tensor lies in an allocation of
# exactly its size, so the engine itself finds an overrun. Results are read twice: where a caller would
# read them, and after all work has run.

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from warpsmith.base import HarnessError
from warpsmith.isolation import FrameError, ProcessLimits
from warpsmith.machines.virtual import (
    Control,
    Description,
    ExecutorFailure,
    ExecutorSettings,
    Facts,
    Gone,
    VirtualGpu,
    describe,
    runtime,
)
from warpsmith.machines.worker import (
    NOT_THERE,
    SOCKET_FD,
    SOCKET_VARIABLE,
    Conversation,
    Mode,
    Observation,
    Raw,
    ReportedTensor,
    Shown,
    Value,
    WorkerReply,
    call,
    executor_failure,
    executor_gone,
    fetch,
    start,
    status_failure,
    without_answer,
    worker_policy,
)
from warpsmith.records import Checker, Confined, Dtype, Failure, Numbers, Reason, Signature

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.tasks.inputs import Values

CALL_S = 60.0  # of one call; an endless kernel meets the budget of instructions before on an idle machine
LIMITS = ProcessLimits(wall_s=600, cpu_s=300, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20)
# NaN patterns of bfloat16 that are NaN in float16 as well; torch's own NaN is left out, since an honest
# kernel may return it.
POISONS = tuple(half for half in range(0x7F81, 0x7FFF) if half != 0x7FC0)  # 0x7FC0 is what a bfloat16 NaN looks like
PAINTED = 16  # results of earlier calls that are painted anew before each call
FREED = "The memory of an argument is gone: it was freed, and it is the caller's."
FULL = "Of the virtual GPU's memory {count} bytes for an argument are not left: the candidate keeps the rest."
SETTINGS = ExecutorSettings(instruction_budget=6_000_000_000, memory_bytes=2 << 30, wall_s=900)


class _Taken(Exception):
    """Memory that the candidate took or freed."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.failure = Failure(reason, detail)


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor of one call in device memory."""

    position: int
    address: int
    raw: Raw

    def overlaps(self, start: int, length: int) -> bool:
        """Return whether an address range touches the tensor."""
        return _touch((start, length), (self.address, len(self.raw.data)))


@dataclass
class VirtualSession:
    """One executor and one worker, ended by `with`."""

    artifact: Path
    entry: str
    signature: Signature
    gpu: Description = field(default_factory=lambda: describe("H200"))
    settings: ExecutorSettings = SETTINGS
    limits: ProcessLimits = LIMITS
    call_s: float = CALL_S
    device: str = "vgpu"

    def __post_init__(self) -> None:
        self._open = ExitStack()
        self._seen: Observation | None = None  # the failure that ended it
        self._buffers: dict[tuple[int, int, int], int] = {}
        self._returned: dict[int, int] = {}  # start and bytes of what was ever returned
        self._handed_out: list[tuple[int, int]] = []  # every result of every call
        self._poison = 0

    def __enter__(self) -> Self:
        with ExitStack() as opening:  # nothing stays behind where one of the steps fails
            self._begin(opening)
            self._open = opening.pop_all()
        return self

    def _begin(self, opening: ExitStack) -> None:
        """Start a virtual GPU and a worker with the artifact."""
        self._virtual = opening.enter_context(VirtualGpu(self.gpu, self.settings))
        policy = worker_policy(self.artifact, runtime().parent, self.limits, {SOCKET_VARIABLE: str(SOCKET_FD)})
        self._child = opening.enter_context(start(policy, [self._virtual.client.fileno()]))
        self._virtual.client.close()
        self._talk = Conversation(self._child, self.call_s)
        try:
            self._load()
        except Gone as gone:
            self._seen = executor_gone(self._child, self._virtual, gone)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def confined(self) -> Confined:
        """The achieved confinement of the worker."""
        return self._child.confined

    def call(
        self,
        arguments: "Values",
        given: "Sequence[Tensor]" = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        """Make one call on a slot; mode and clock have no effect."""
        try:
            if self._seen is None:
                return self._call(arguments, given, slot)
        except Gone as gone:
            self._seen = executor_gone(self._child, self._virtual, gone)
        except _Taken as taken:
            self._seen = Observation(taken.failure)

        return Shown(self._seen.failure, facts=self._seen.facts)

    def _load(self) -> None:
        """Load the artifact; store a failure."""
        answer = self._talk.load(self.artifact)
        if isinstance(answer, FrameError):
            self._seen = without_answer(self._child, self._virtual, answer)
        elif (failure := status_failure(answer)) is not None:
            self._seen = Observation(failure)

    def _call(self, arguments: "Values", given: "Sequence[Tensor]", slot: int) -> Shown:
        """Make and observe one call."""
        # Arguments are written into the buffers of the slot in place: the same slot has the same
        # addresses, as on a real GPU, so that a cache by pointer shows.
        from warpsmith.machines.worker import to_raw, to_values

        self._renew_poison()
        self._paint_returned()
        values = to_values(arguments, self.signature)
        outputs = tuple(self._painted(to_raw(like)) for like in given)
        places = [self._place(slot, place, n, raw) for place, n, raw in _tensors((*values, *outputs))]
        addresses = {id(place.raw): place.address for place in places}
        payload = call(self.entry, (*values, *outputs), lambda raw: addresses.get(id(raw), 0))
        answer = self._talk.call(payload)
        if isinstance(answer, FrameError):
            self._seen = without_answer(self._child, self._virtual, answer)
            return Shown(self._seen.failure, facts=self._seen.facts)
        own = [place for place in places if place.position < len(values)]
        lent = {place.address for place in places if place.position >= len(values)}
        return self._look(answer, own, lent)

    def _look(self, answer: WorkerReply, arguments: Sequence[PlacedTensor], lent: set[int]) -> Shown:
        """Observe results before and after all work has run."""
        # Facts are read in two spans: errors of the first belong to the call, and work that starts in the
        # second was never waited for. Results are then fetched again, and a difference means a late
        # write.
        control, claims = self._control, answer.results if status_failure(answer) is None else ()
        during = control.facts(finish=False)
        found = fetch(control, claims, self.settings)
        after = control.facts(finish=True)
        facts = _joined(during, after)
        failure = executor_failure(facts, status_failure(answer) is None) or status_failure(answer)
        if failure is None and None in found:
            failure = Failure(Reason.BAD_ANSWER, NOT_THERE.format(number=found.index(None)))
        if failure is not None:
            self._seen = Observation(failure, facts=facts)
            return Shown(failure, facts=facts)
        results = [raw for raw in found if raw is not None]
        for claim in claims:
            self._returned.pop(claim.address, None)
            self._returned[claim.address] = claim.tensor.span_bytes  # the youngest last
        unwritten = self._unwritten(claims, results, after)
        return Shown(
            failure=None,
            results=_to_tensors(results),
            changed=self._changed(arguments),
            aliased=self._aliased(claims, arguments, lent, unwritten),
            unwritten=unwritten,
            settled=results == fetch(control, claims, self.settings),
            facts=facts,
            poison=self._poison.to_bytes(2, "little"),
        )

    @property
    def _control(self) -> Control:
        """The evaluator's connection to the executor."""
        return self._virtual.control

    def _place(self, slot: int, position: int, number: int, raw: Raw) -> PlacedTensor:
        """Write a tensor to its buffer; raise _Taken if freed."""
        # Buffers are reused by slot, number and size. One buffer a size: an overrun by a byte then leaves
        # the allocation.
        if not raw.data:
            return PlacedTensor(position, 0, raw)
        key = (slot, number, len(raw.data))
        if key not in self._buffers:
            self._buffers[key] = self._allocated(len(raw.data))
        try:
            self._control.write(self._buffers[key], raw.data)
        except HarnessError:  # the buffer is the judge's, and nobody else can have freed it
            raise _Taken(Reason.INPUT_CHANGED, FREED) from None
        return PlacedTensor(position, self._buffers[key], raw)

    def _allocated(self, count: int) -> int:
        """Allocate an argument's memory; raise _Taken if exhausted."""
        # If our own buffers take more than half of the memory, the case is too large and the error is
        # ours; else the candidate holds the rest.
        try:
            return self._control.allocate(count)
        except HarnessError:
            own = count + sum(size for _, _, size in self._buffers)
            if own > self.settings.memory_bytes // 2:
                raise
            raise _Taken(Reason.MEMORY_LIMIT, FULL.format(count=count)) from None

    def _renew_poison(self) -> None:
        """Draw poison that is NaN in every float type."""
        self._poison = secrets.choice([half for half in POISONS if half != self._poison])

    def _painted(self, raw: Raw) -> Raw:
        """Return a result's description with poisoned bytes."""
        data = (self._poison.to_bytes(2, "little") * (raw.span_bytes // 2 + 1))[: raw.span_bytes]
        return replace(raw, data=data)

    def _paint_returned(self) -> None:
        """Poison results of earlier calls."""
        # A candidate that returns an old result again then returns poison. The memory is read first:
        # freed memory is dropped from the list, since a write to it would be an error of ours.
        for at, length in list(self._returned.items()):
            if length < 2 or self._control.read(at, length) is None:
                del self._returned[at]
            else:
                self._control.fill(at + at % 2, self._poison, 2, (length - at % 2) // 2)
        for at in list(self._returned)[:-PAINTED]:  # painted once, they hold nothing any more
            del self._returned[at]

    def _changed(self, arguments: Sequence[PlacedTensor]) -> tuple[int, ...]:
        """Return the positions of changed arguments."""
        stored = [place for place in arguments if place.raw.data]
        moved = [p.position for p in stored if self._control.read(p.address, len(p.raw.data)) != p.raw.data]
        return tuple(dict.fromkeys(moved))

    def _aliased(
        self, claims: Sequence[ReportedTensor], arguments: Sequence[PlacedTensor], lent: set[int], old: Sequence[int]
    ) -> tuple[int, ...]:
        """Return results that overlap arguments or other results."""
        # Results of earlier calls belong to the caller, who may still use them. A result that this call
        # did not write (`old`) is reported as unwritten instead, which explains the defect better.
        now: list[tuple[int, int]] = []
        found: list[int] = []
        for place, claim in enumerate(claims):
            span = (claim.address, claim.tensor.span_bytes)
            taken = now if place in old else [*now, *self._handed_out]
            if any(argument.overlaps(*span) for argument in arguments) or any(_touch(span, one) for one in taken):
                found.append(place)
            now.append(span)
        self._handed_out += [span for span in now if span[0] not in lent]  # what the judge lends is lent again
        return tuple(found)

    def _unwritten(self, claims: Sequence[ReportedTensor], results: Sequence[Raw], after: Facts) -> tuple[int, ...]:
        """Return results that this call did not write fully."""
        # Two sources: the engine knows bytes that no kernel ever wrote; the poison shows bytes that only
        # an earlier call wrote.
        starts = [one.start for one in after.findings if one.checker is Checker.UNINITIALIZED and not one.kernel]
        never = {
            place
            for place, claim in enumerate(claims)
            if any(claim.address <= start < claim.address + claim.tensor.span_bytes for start in starts)
        }
        stale = {place for place, raw in enumerate(results) if _holds(raw, self._poison)}
        return tuple(sorted(never | stale))


def _tensors(values: Sequence[Value]) -> list[tuple[int, int, Raw]]:
    """Return every tensor with its position and number."""
    found: list[tuple[int, int, Raw]] = []
    for position, value in enumerate(values):
        parts = value if isinstance(value, tuple) else (value,)
        found += [(position, len(found) + n, raw) for n, raw in enumerate(p for p in parts if isinstance(p, Raw))]
    return found


def _to_tensors(results: Sequence[Raw]) -> "tuple[Tensor, ...]":
    """Return raw results as torch tensors."""
    from warpsmith.machines.worker import to_tensor

    return tuple(to_tensor(raw) for raw in results)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two address ranges share a byte."""
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def _holds(raw: Raw, poison: int) -> bool:
    """Return whether an element still holds the poison."""
    # Every bit pattern of an integer is legal, so only float types can tell; for the others the
    # comparison decides.
    import torch

    from warpsmith.machines.worker import to_tensor

    if not raw.data or Dtype.from_name(raw.dtype).numbers is not Numbers.ROUNDED:
        return False
    tensor = to_tensor(raw)
    halves = tensor.contiguous().reshape(-1).view(torch.int16)
    whole = (halves == poison).reshape(-1, tensor.element_size() // 2).all(dim=1)
    return bool(whole.any())


def _joined(first: Facts, second: Facts) -> Facts:
    """Merge facts of two spans; the first failure counts."""
    failed = first if first.failure is not ExecutorFailure.NONE else second
    return failed.model_copy(
        update={
            "findings": (*first.findings, *second.findings),
            "findings_dropped": first.findings_dropped + second.findings_dropped,
            "kernels": (*first.kernels, *second.kernels),
            "log": first.log + second.log,
            "printed_bytes": first.printed_bytes + second.printed_bytes,
            "transfers": first.transfers + second.transfers,
            "transferred_bytes": first.transferred_bytes + second.transferred_bytes,
            "host_bytes": first.host_bytes + second.host_bytes,
        }
    )
