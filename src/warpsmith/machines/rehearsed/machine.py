"""A rehearsed GPU as a machine."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from warpsmith.base import UsageError
from warpsmith.machines.cuda import CudaMachine, GivenTimes
from warpsmith.machines.hardware import Gpu, GpuState, MemoryUse
from warpsmith.machines.machine import CheckLimits
from warpsmith.machines.rehearsed.access import RehearsedAccess
from warpsmith.machines.virtual import VirtualMachine, describe
from warpsmith.records import Ceilings

REHEARSED_GPUS = "WARPSMITH_REHEARSED_GPUS"
MOST_GPUS = 16
MODEL = "H200"
TORCH_US = 30.0
CEILINGS = Ceilings(
    gpu=MODEL, measured=False, read_bytes_per_s=4.2e12, write_bytes_per_s=4.0e12, copy_bytes_per_s=4.1e12
)
# The calls are those of the virtual GPU, which executes them here.
LIMITS = replace(VirtualMachine.limits, streak_s=5.0)


# 143771 MiB is an H200. The empty driver version tells stages that no NVIDIA tool can run here.
GPU = Gpu(f"rehearsed {MODEL}", "", 143771, "9.0", "REHEARSED-0")


@dataclass(frozen=True)
class RehearsedMachine(CudaMachine):
    """A GPU whose times mean nothing."""

    # Sessions, replay processes, captures, leases and stages are those of a real GPU, so that any CI can
    # run the evaluator's code without one.

    gpu: Gpu = GPU
    limits: CheckLimits = LIMITS
    names_processes: bool = True

    kind: ClassVar[str] = "rehearsed"
    given: ClassVar[GivenTimes | None] = GivenTimes(TORCH_US, CEILINGS)

    @classmethod
    def all(cls, find_gpus: Callable[[], Sequence[Gpu]] | None = None) -> "tuple[RehearsedMachine, ...]":
        """Return WARPSMITH_REHEARSED_GPUS machines; raise UsageError for a wrong number."""
        if find_gpus is not None:
            return tuple(map(cls, find_gpus()))
        said = os.environ.get(REHEARSED_GPUS, "1")
        if not said.isdigit() or not 1 <= int(said) <= MOST_GPUS:
            raise UsageError(f"{REHEARSED_GPUS} is {said!r}; use a number from 1 to {MOST_GPUS}.")
        return tuple(cls(replace(GPU, uuid=f"REHEARSED-{number}", number=number)) for number in range(int(said)))

    @property
    def access(self) -> RehearsedAccess:
        """Access of this process to the rehearsed GPU."""
        return _access(self.uuid, self.names_processes)

    def state(self) -> GpuState:
        """Return no clocks: a rehearsed GPU has none."""
        return GpuState()

    def memory(self) -> MemoryUse:
        """Return the memory of the rehearsed GPU and its holders."""
        return self.access.memory()


@cache
def _access(_uuid: str, names_processes: bool) -> RehearsedAccess:
    """Return the access of this process to one card."""
    # One object a card and process: the running workers are counted in it, and they share the card's
    # memory.
    return RehearsedAccess(describe(MODEL), names_processes)
