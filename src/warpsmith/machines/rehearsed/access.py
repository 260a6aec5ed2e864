"""Access to a rehearsed GPU: memory files, torch on the CPU, virtual GPUs."""
# The evaluator process and the executor map the same file. The executor does not see bytes that the
# evaluator process writes, so races and unwritten reads are not checked, as on a real GPU.

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.isolation import Child, ProcessLimits
from warpsmith.machines.cuda import FIRST_FD, Margins, SharedMemory, whole_granules
from warpsmith.machines.hardware import MemoryUse
from warpsmith.machines.virtual import Description, ExecutorSettings, Gone, VirtualGpu, driver, runtime
from warpsmith.machines.worker import SOCKET_VARIABLE, start, worker_policy

if TYPE_CHECKING:
    from torch import Tensor

LIMITS = ProcessLimits(
    wall_s=600, cpu_s=300, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20, address_space=False
)
SETTINGS = ExecutorSettings(instruction_budget=1_000_000_000, memory_bytes=2 << 30, wall_s=600)
FEW_BYTES = 1 << 20  # every call paints and reads the margins, which takes the CPU much longer than a GPU
FLUSH_US = 400.0  # given: the duration of a flush says whether a GPU was disturbed, and there is none
L2_BYTES = 60 << 20


class MappedFile:
    """Memory that the evaluator process and a worker map."""

    def __init__(self, size: int) -> None:
        self.bytes = whole_granules(size)
        # A memfd has no name, so no other process can open it; only a child that inherits the descriptor
        # maps the memory.
        self.fd = os.memfd_create("arena")
        os.ftruncate(self.fd, self.bytes)
        self._map = mmap.mmap(self.fd, self.bytes)

    def view(self) -> "Tensor":
        """Return the whole memory as a tensor of bytes."""
        import torch

        return torch.frombuffer(self._map, dtype=torch.uint8)

    def close(self) -> None:
        """Close the descriptor; tensors keep the mapping alive."""
        os.close(self.fd)


@dataclass(frozen=True)
class RehearsedAccess:
    """Access of the evaluator process to a rehearsed GPU."""

    # Several virtual GPUs may run at once, one for each worker. Together they count as one card with one
    # memory, so that the memory watch can be rehearsed.

    description: Description
    names_processes: bool = True  # a container may hide which process holds how much
    _running: list[tuple[VirtualGpu, Child]] = field(default_factory=list, compare=False, repr=False)

    torch_device = "cpu"
    margins = Margins(FEW_BYTES, FEW_BYTES)

    @contextmanager
    def allocate(self, size: int) -> Iterator[SharedMemory]:
        """Allocate memory that a worker can map."""
        made = MappedFile(size)
        try:
            yield made
        finally:
            made.close()

    def synchronize(self) -> None:
        """Do nothing: torch on the CPU has no queue."""

    def prepare_flush(self) -> None:
        """Do nothing: a flush takes no memory here."""

    def flush(self) -> float:
        """Return the given flush duration in microseconds."""
        return FLUSH_US

    def reserved_bytes(self) -> int:
        """Return 0: torch holds no device memory."""
        return 0

    def release_cache(self) -> None:
        """Do nothing: torch holds no device memory."""

    def free_and_total_bytes(self) -> tuple[int, int]:
        """Return the free and the total bytes of the card."""
        use = self.memory()
        return use.free_bytes, use.total_bytes

    def l2_bytes(self) -> int:
        """Return the size of the L2 cache of an H200."""
        return L2_BYTES

    def start_worker(self, artifact: Path, _runtime: Path, arenas: Sequence[SharedMemory], opening: ExitStack) -> Child:
        """Start a virtual GPU and a worker that map the arenas."""
        # The stand-in for libcuda is preloaded: a worker that shares memory calls the driver API, which
        # the real GPU's session uses as well.
        lent = [arena.fd for arena in arenas]
        virtual = opening.enter_context(VirtualGpu(self.description, SETTINGS, lent=lent))
        more = {SOCKET_VARIABLE: str(FIRST_FD + len(lent)), "LD_PRELOAD": str(driver())}
        policy = worker_policy(artifact, runtime().parent, LIMITS, more)
        readable = replace(policy, read=(*policy.read, driver().parent))
        child = opening.enter_context(start(readable, [*lent, virtual.client.fileno()]))
        virtual.client.close()
        self._running[:] = [one for one in self._running if one[1].is_alive]
        self._running.append((virtual, child))
        return child

    def memory(self) -> MemoryUse:
        """Return the card's memory and its holders."""
        alive = [(virtual, child) for virtual, child in self._running if child.is_alive]
        held = {min(child.processes): taken for virtual, child in alive if (taken := _taken_bytes(virtual))}
        total = SETTINGS.memory_bytes
        return MemoryUse(max(0, total - sum(held.values())), total, held if self.names_processes else {})


def _taken_bytes(virtual: VirtualGpu) -> int:
    """Return the bytes that a worker holds; 0 after its end."""
    try:
        free, total = virtual.control.memory()
    except Gone:
        return 0
    return total - free
