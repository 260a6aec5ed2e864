"""A candidate that stays loaded over many calls: the interface that checking and timing share on either device.

A session copies the arguments into the buffers of a slot (the same slot is the same addresses), poisons every byte that
the call may return, sees the device idle, lets the worker call, and looks at what is there afterwards.
"""

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
    """How a call is made on a real GPU; the virtual one knows no difference."""

    IDLE = "idle"  # from an idle device: what a single call costs, launch included
    QUEUED = "queued"  # behind a gate of bounded time, so that launch gaps are hidden


@dataclass(frozen=True)
class Clocks:
    """Raw times of one call in microseconds: claims of the worker, but `wall_us` and `flush_us` are the evaluator's."""

    event_us: float
    host_us: float  # until the candidate's function returned
    wall_us: float  # from the judge's go to the worker's answer
    flush_us: float  # the judge's own flush just before; longer than usual means a disturbed GPU
    kind: str = "usual"  # of the call's inputs

    @property
    def beside_us(self) -> float:
        """The wait beyond the claimed time: the way there and back, and all that the claim leaves out."""
        return self.wall_us - self.event_us


@dataclass(frozen=True)
class Shown:
    """One observed call: the results on the evaluator's device or the failure, and all side effects."""

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
    """A loaded candidate. Its failures are values; after one with failure every further call repeats that failure."""

    @property
    def device(self) -> str:
        """`vgpu` or `cuda`."""
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
        """Make one call on the buffers of a slot; a call that is not timed leaves cache and device as they are.

        `given` are tensors of the results' shapes for a candidate of plain style, which writes where it is told: the
        session makes poisoned ones of their layout and passes them after the arguments; they come back as results.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
