"""A machine: the place where candidates run, as one value that the stages of an evaluation ask."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from warpsmith.machines.hardware import GpuState, Need
from warpsmith.records import Direction, Group, Trial

if TYPE_CHECKING:
    from warpsmith.tasks.host import OpenTask
    from warpsmith.tasks.reference import Problem


@dataclass(frozen=True)
class CheckLimits:
    """Bounds of a check on a machine, and the cases that it covers unless the caller names others."""

    groups: tuple[Group, ...]
    heldout_work: float | None  # operations of a held-out shape, or elements where the task has no formula
    light_work: float  # of a case that is cheap enough for a hundred calls in a row
    streak_s: float | None = None  # such a series of calls ends after this time; None: never
    one_thread: bool = False  # torch computes references with the calling thread alone


class Machine(Protocol):
    """One GPU, real or virtual, with the environment that evaluations on it need."""

    @property
    def kind(self) -> str:
        """`cuda` or `vgpu`, as records and options name it."""
        ...

    @property
    def name(self) -> str:
        """The device as records show it."""
        ...

    @property
    def hardware(self) -> str:
        """The hardware as part of a record's key: records of equal hardware have comparable times."""
        ...

    @property
    def uuid(self) -> str:
        """The UUID of the card; empty for a virtual GPU."""
        ...

    @property
    def driver(self) -> str:
        """The version of the GPU's driver; empty without one."""
        ...

    @property
    def arch(self) -> str:
        """The architecture that the compiler is asked for."""
        ...

    @property
    def torch_device(self) -> str:
        """The device on which torch computes references."""
        ...

    @property
    def limits(self) -> CheckLimits:
        """The bounds of a check."""
        ...

    def solve(self, opened: "OpenTask", direction: Direction, trial: Trial) -> "Problem":
        """Return the arguments of a test input and its reference results, on `torch_device`."""
        ...

    def lease(self, need: Need) -> AbstractContextManager[None]:
        """Hold this GPU, shared or exclusively, among threads and processes."""
        ...

    def state(self) -> GpuState:
        """Return clocks, throttle reasons and the number of processes on the GPU."""
        ...
