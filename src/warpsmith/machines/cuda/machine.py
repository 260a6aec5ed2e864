"""An NVIDIA GPU as a machine."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import MachineError
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import Gpu, GpuState, Need, gpu_memory, gpu_state, gpus
from warpsmith.machines.hardware.lease import lease
from warpsmith.machines.machine import CheckLimits
from warpsmith.records import Direction, Group, Trial

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
MUCH = 1 / 16  # of the GPU's memory, for arenas: references in float64 take as much again
USUAL_MIB = 80 << 10


@dataclass(frozen=True)
class CudaMachine:
    """One NVIDIA GPU of this machine."""

    gpu: Gpu
    limits: CheckLimits = LIMITS
    torch_device: str = "cuda"

    kind = "cuda"

    @classmethod
    def first(cls, find_gpus: Callable[[], Sequence[Gpu]] | None = None) -> "CudaMachine":
        """Return the machine of the first visible GPU."""
        here = (find_gpus or gpus)()
        if not here:
            raise MachineError(
                "This machine has no NVIDIA GPU that this process may use; --device vgpu runs without one."
            )
        return cls(here[0])

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
        """The architecture that the compiler is asked for."""
        return self.gpu.arch

    def solve(self, opened: "OpenTask", direction: Direction, trial: Trial) -> "Problem":
        """Return the arguments of a test input and its reference results, on this GPU.

        A task of the suite is solved on the GPU; a foreign task is solved in its confined process and copied.
        """
        from warpsmith.tasks.host import LocalTask
        from warpsmith.tasks.reference import moved, problem

        if isinstance(opened, LocalTask):
            return problem(opened.program, direction, trial, self.torch_device)
        return moved(opened.problem(direction, trial), self.torch_device)

    def session(
        self, artifact: Path, direction: Direction, room: "Room | Buffers", call_s: float, bases: Sequence[int]
    ) -> "CudaSession":
        """Return a session that loads the artifact into a worker on this GPU."""
        from warpsmith.machines.cuda.session import CudaSession

        runtime, meter = Toolchain.find().runtime.parent, partial(gpu_memory, self.uuid)
        return CudaSession(artifact, direction.value, runtime, room, call_s, bases, meter)

    def is_much(self, arenas_bytes: int) -> bool:
        """Whether arenas take a large part of this GPU's memory; not every GPU reports how much it has."""
        return arenas_bytes > MUCH * ((self.gpu.memory_mib or USUAL_MIB) << 20)

    def has_room_for(self, arenas_bytes: int) -> bool:
        """Whether arenas leave half of the GPU's memory to others while a replay process waits with them."""
        import torch

        free, total = torch.cuda.mem_get_info()
        return not self.is_much(arenas_bytes) and free - arenas_bytes > total / 2

    def lease(self, need: Need) -> AbstractContextManager[None]:
        """Hold this GPU, shared or exclusively, among threads and processes."""
        return lease(need)

    def state(self) -> GpuState:
        """Return clocks, throttle reasons and the number of processes on the GPU."""
        return gpu_state(self.uuid)
