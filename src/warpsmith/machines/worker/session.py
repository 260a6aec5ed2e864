"""The interface of a loaded candidate, shared by checking and timing."""
# A session copies the arguments into the buffers of a slot (the same slot has the same addresses),
# poisons every byte that the call may return, waits for an idle device, lets the worker call, and
# observes the memory afterwards.

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from warpsmith.machines.virtual import Facts
from warpsmith.records import Confined, Failure

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.tasks.inputs import Values


class Mode(StrEnum):
    """The mode of a call on a real GPU."""

    IDLE = "idle"  # from an idle device: what a single call costs, launch included
    QUEUED = "queued"  # behind a gate of bounded time, so that launch gaps are hidden


@dataclass(frozen=True)
class Clocks:
    """Raw times of one call in microseconds."""

    # `event_us` and `host_us` are claims of the worker's process. `wall_us` and `flush_us` are measured
    # by the evaluator process, and only they can confirm a claim.

    event_us: float
    host_us: float  # until the candidate's function returned
    wall_us: float  # from the judge's go to the worker's answer
    flush_us: float  # the judge's own flush just before; longer than usual means a disturbed GPU
    kind: str = "usual"  # of the call's inputs

    @property
    def beside_us(self) -> float:
        """The evaluator's wait beyond the claimed event time."""
        # The way there and back, and any work that the events leave out. An empty kernel's wait is the
        # zero of this scale.
        return self.wall_us - self.event_us


@dataclass(frozen=True)
class Shown:
    """One observed call, with all side effects."""

    failure: Failure | None
    results: tuple["Tensor", ...] = ()
    changed: tuple[int, ...] = ()  # positions of arguments whose bytes differ afterwards
    aliased: tuple[int, ...] = ()  # positions of results that overlap an argument or an earlier result
    unwritten: tuple[int, ...] = ()  # positions of results with bytes that still hold this call's poison
    overrun: bool = False  # a guard zone was written
    settled: bool = True  # the output on the stream at return is the output after a device synchronize
    clocks: Clocks | None = None
    facts: Facts | None = None  # of the virtual GPU
    poison: bytes = b""  # what memory that the call may return was filled with


class Session(Protocol):
    """A loaded candidate; every call after a failure repeats it."""

    @property
    def device(self) -> str:
        """The device: `vgpu` or `cuda`."""
        ...

    @property
    def confined(self) -> Confined:
        """The achieved confinement of the worker."""
        ...

    def call(
        self,
        arguments: "Values",
        given: "Sequence[Tensor]" = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        """Make one call on a slot; return its observation."""
        # `given` have the shapes of the results, for languages whose kernels write into passed tensors:
        # the session passes poisoned ones after the arguments. A call with `timed` False leaves the cache
        # and the device as they are.
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
