"""An NVIDIA GPU as a machine."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from warpsmith.base import MachineError
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda.access import CudaAccess, GpuAccess
from warpsmith.machines.hardware import (
    Gpu,
    GpuState,
    MemoryUse,
    Need,
    calling,
    gpu_memory,
    gpu_state,
    gpus,
    lease,
    much_memory,
)
from warpsmith.machines.machine import CheckLimits
from warpsmith.records import Ceilings, Direction, Group, Trial

if TYPE_CHECKING:
    from warpsmith.machines.cuda.room import Buffers, Room
    from warpsmith.machines.cuda.session import CudaSession
    from warpsmith.tasks.host import OpenTask
    from warpsmith.tasks.reference import Problem

LIMITS = CheckLimits(
    groups=(Group.DEV, Group.HELDOUT),
    heldout_work=None,
    light_work=1e8,
    streak_s=5.0,  # a slow kernel must not keep the GPU from other evaluations for minutes
)
# Eight evaluations share a GPU. With a sixteenth each, their arenas and references fit together.
MUCH = 1 / 16  # of the GPU's memory, for arenas: references in float64 take as much again
# An integrated GPU shares the host's memory and reports none of its own.
USUAL_MIB = 80 << 10


@dataclass(frozen=True)
class GivenTimes:
    """Given times for a machine whose clocks mean nothing."""

    torch_us: float
    ceilings: Ceilings
    groups: tuple[Group, ...] = (Group.SMOKE,)  # timing cases would take the CPU minutes each


@dataclass(frozen=True)
class CudaMachine:
    """One NVIDIA GPU of this machine."""

    gpu: Gpu
    limits: CheckLimits = LIMITS

    kind: ClassVar[str] = "cuda"
    given: ClassVar[GivenTimes | None] = None  # times are measured

    @classmethod
    def all(cls, find_gpus: Callable[[], Sequence[Gpu]] | None = None) -> "tuple[CudaMachine, ...]":
        """Return the GPUs like the first; raise MachineError without a GPU."""
        # Only equal cards: a batch is spread over them, and a record's key names one hardware. Times of
        # different models are not comparable.
        here = (find_gpus or gpus)()
        if not here:
            raise MachineError(
                "This machine has no NVIDIA GPU that this process may use; --device vgpu runs without one."
            )
        return tuple(cls(gpu) for gpu in here if (gpu.name, gpu.capability) == (here[0].name, here[0].capability))

    @classmethod
    def first(cls, find_gpus: Callable[[], Sequence[Gpu]] | None = None) -> "CudaMachine":
        """Return the machine of the first visible GPU."""
        return cls.all(find_gpus)[0]

    @property
    def access(self) -> GpuAccess:
        """The access of this process to the GPU."""
        return CudaAccess(self.gpu.number, self.gpu.uuid)

    @property
    def torch_device(self) -> str:
        """The device on which torch computes references."""
        return self.access.torch_device

    @property
    def runtime(self) -> Path:
        """The folder of the CUDA runtime for workers."""
        return Toolchain.find().runtime.parent

    @property
    def name(self) -> str:
        """The device as records show it."""
        return self.gpu.name

    @property
    def hardware(self) -> str:
        """The hardware as part of a record's key."""
        return f"{self.kind}:{self.gpu.name}"

    @property
    def uuid(self) -> str:
        """The UUID of the card."""
        return self.gpu.uuid

    @property
    def driver(self) -> str:
        """The version of the GPU's driver."""
        return self.gpu.driver

    @property
    def arch(self) -> str:
        """The architecture that the compiler targets."""
        return self.gpu.arch

    def solve(self, opened: "OpenTask", direction: Direction, trial: Trial) -> "Problem":
        """Return a test input's arguments and references on this GPU."""
        # Python code of a foreign task runs in its confined process only; its tensors are copied to the
        # GPU. Code of the suite is ours and may run here.
        from warpsmith.tasks.host import LocalTask
        from warpsmith.tasks.reference import moved, problem

        if isinstance(opened, LocalTask):
            return problem(opened.program, direction, trial, self.torch_device)
        return moved(opened.problem(direction, trial), self.torch_device)

    def session(
        self, artifact: Path, direction: Direction, room: "Room | Buffers", call_s: float, bases: Sequence[int]
    ) -> "CudaSession":
        """Return a session with a worker on this GPU."""
        from warpsmith.machines.cuda.session import CudaSession

        return CudaSession(artifact, direction.value, self.runtime, room, call_s, bases, self.memory, self.access)

    def is_much(self, arenas_bytes: int) -> bool:
        """Return whether arenas take a sixteenth of the GPU."""
        return arenas_bytes > MUCH * ((self.gpu.memory_mib or USUAL_MIB) << 20)

    def has_room_for(self, arenas_bytes: int) -> bool:
        """Return whether half of the GPU's memory stays free."""
        # A replay process that waits for its exclusive lease holds its arenas all the time, beside the
        # checks of other evaluations.
        free, total = self.access.free_and_total_bytes()
        return not self.is_much(arenas_bytes) and free - arenas_bytes > total / 2

    def lease(self, need: Need) -> AbstractContextManager[None]:
        """Hold this GPU, shared or exclusively."""
        return lease(need, self.uuid)

    def calling(self) -> AbstractContextManager[None]:
        """Wait for one of the few places for calls."""
        return calling(self.uuid)

    def much_memory(self) -> AbstractContextManager[None]:
        """Wait for the only place for large arenas."""
        return much_memory(self.uuid)

    def state(self) -> GpuState:
        """Return clocks, throttle reasons and the number of processes on the GPU."""
        return gpu_state(self.uuid)

    def memory(self) -> MemoryUse | None:
        """Return the GPU's memory use, or None without an answer."""
        return gpu_memory(self.uuid)
