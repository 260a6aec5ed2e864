"""The virtual GPU as a machine."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.machines.hardware import GpuState, Need, arch_of
from warpsmith.machines.machine import CheckLimits
from warpsmith.machines.virtual.description import Description, describe
from warpsmith.machines.virtual.session import CALL_S, VirtualSession
from warpsmith.records import Direction, Group, Signature, Trial

if TYPE_CHECKING:
    from warpsmith.tasks.host import OpenTask
    from warpsmith.tasks.reference import Problem

LIMITS = CheckLimits(
    groups=(Group.SMOKE, Group.HELDOUT),
    heldout_work=4e6,  # about half a second of execution
    light_work=1e5,
    one_thread=True,  # tensors are small, and many candidates are evaluated at once
)


@dataclass(frozen=True)
class VirtualMachine:
    """A GPU that is modelled on this machine's CPU."""

    gpu: Description
    limits: CheckLimits = LIMITS

    kind = "vgpu"
    uuid = ""
    driver = ""
    torch_device = "cpu"

    @classmethod
    def of(cls, gpu: str) -> "VirtualMachine":
        """Return the machine of a GPU name or file."""
        return cls(describe(gpu))

    @property
    def name(self) -> str:
        """The device as records show it."""
        return f"virtual {self.gpu.name}"

    @property
    def hardware(self) -> str:
        """The hardware as part of a record's key."""
        return f"{self.kind}:{self.gpu.name}"

    @property
    def arch(self) -> str:
        """The architecture of the modelled GPU."""
        return self.gpu.arch or arch_of(".".join(map(str, self.gpu.capability)))

    def solve(self, opened: "OpenTask", direction: Direction, trial: Trial) -> "Problem":
        """Return a test input's arguments and reference results."""
        return opened.problem(direction, trial)

    def session(
        self, artifact: Path, direction: Direction, signature: Signature, call_s: float = CALL_S
    ) -> VirtualSession:
        """Return a session with a worker on this machine."""
        return VirtualSession(artifact, direction.value, signature, self.gpu, call_s=call_s)

    def lease(self, need: Need) -> AbstractContextManager[None]:
        """Hold nothing: evaluations share the CPU freely."""
        return nullcontext()

    def state(self) -> GpuState:
        """Return no clocks: a virtual GPU has none."""
        return GpuState()
