"""The machine: a place where candidates run, as a protocol."""

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
    """Bounds of a check, and its default groups of cases."""

    groups: tuple[Group, ...]
    heldout_work: float | None  # operations of a held-out shape, or elements where the task has no formula
    light_work: float  # of a case that is cheap enough for a hundred calls in a row
    streak_s: float | None = None  # such a series of calls ends after this time; None: never
    one_thread: bool = False  # torch computes references with the calling thread alone


class Machine(Protocol):
    """One GPU, real, virtual or rehearsed."""

    # Stages ask the machine and never compare its kind. A new machine therefore needs no change in a
    # stage.

    @property
    def kind(self) -> str:
        """The kind: `cuda`, `vgpu` or `rehearsed`."""
        ...

    @property
    def name(self) -> str:
        """The device as records show it."""
        ...

    @property
    def hardware(self) -> str:
        """The hardware as part of a record's key."""
        # Records with equal hardware have comparable times. The UUID is not part of the key: two cards of
        # one model count as the same hardware.
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
        """The architecture that the compiler targets."""
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
        """Return a test input's arguments and reference results."""
        ...

    def lease(self, need: Need) -> AbstractContextManager[None]:
        """Hold this GPU, shared or exclusively."""
        ...

    def state(self) -> GpuState:
        """Return clocks, throttle reasons and process count."""
        ...
