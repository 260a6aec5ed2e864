"""The access of this process to one GPU, as a protocol."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from warpsmith.isolation import Child, ProcessLimits
from warpsmith.machines.worker import start, visible_gpu, worker_policy

if TYPE_CHECKING:
    from torch import Tensor

FIRST_FD = 5  # number of the first file descriptor that is passed to a worker
# torch keeps freed memory for its own next allocation. Up to eight evaluator processes share one GPU, and
# each of them computes float64 references.
MOST_RESERVED = 2 << 30  # bytes; others are evaluated at the same time, each in a process of its own
# CUDA reserves terabytes of addresses, so the address space cannot be limited; resident memory still is.
# Much wall-clock time: a session waits for others that use the GPU, and each of its calls has a limit of its own.
LIMITS = ProcessLimits(wall_s=3600, cpu_s=600, memory_bytes=32 << 30, output_bytes=1 << 20, address_space=False)


@dataclass(frozen=True)
class Margins:
    """Bytes around the tensors of a call."""

    # `cudaMalloc` of the candidate is served from the scratch, so that a replay finds the same memory at
    # the same addresses.

    scratch_bytes: int = 1 << 30
    tail_bytes: int = 64 << 20  # behind the last argument: painted and watched, if the slot is long enough


MARGINS = Margins()


class SharedMemory(Protocol):
    """Device memory that the evaluator process and a worker map."""

    bytes: int
    fd: int

    def view(self) -> "Tensor":
        """Return the whole allocation as a tensor of bytes."""
        ...


class GpuAccess(Protocol):
    """Access of the evaluator process to one GPU."""

    @property
    def torch_device(self) -> str:
        """The name of the device for torch."""
        ...

    @property
    def margins(self) -> Margins:
        """The bytes around the tensors of a call."""
        ...

    def allocate(self, size: int) -> AbstractContextManager[SharedMemory]:
        """Allocate device memory that a worker can map."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has no work."""
        ...

    def prepare_flush(self) -> None:
        """Allocate the memory of a flush."""
        ...

    def flush(self) -> float:
        """Empty the L2 cache; return the duration in microseconds."""
        ...

    def reserved_bytes(self) -> int:
        """Return the bytes that torch's allocator holds here."""
        ...

    def release_cache(self) -> None:
        """Return torch's unused memory to the GPU."""
        ...

    def free_and_total_bytes(self) -> tuple[int, int]:
        """Return free and total bytes of device memory."""
        ...

    def l2_bytes(self) -> int:
        """Return the size of the L2 cache."""
        ...

    def start_worker(self, artifact: Path, runtime: Path, arenas: Sequence[SharedMemory], opening: ExitStack) -> Child:
        """Start a worker that inherits the arenas' descriptors."""
        # The exit stack of the caller ends the worker, also when a later step of the caller fails.
        ...


@dataclass(frozen=True)
class CudaAccess:
    """A GPU through CUDA's driver and torch."""

    # CUDA's numbers depend on CUDA_VISIBLE_DEVICES, and the worker gets its own value of that variable.
    # Only the UUID names the same card in both processes.

    number: int = 0
    uuid: str = ""
    margins: Margins = MARGINS

    @property
    def torch_device(self) -> str:
        """The name of the device for torch."""
        return f"cuda:{self.number}" if self.number else "cuda"

    def allocate(self, size: int) -> AbstractContextManager[SharedMemory]:
        """Allocate device memory that a worker can map."""
        from warpsmith.machines.cuda.memory import Arena

        return Arena(size, self.number)

    def synchronize(self) -> None:
        """Wait until the device has no work."""
        import torch

        torch.cuda.synchronize(self.torch_device)

    def prepare_flush(self) -> None:
        """Allocate the memory of a flush."""
        from warpsmith.machines.cuda.flush import prepare_flush

        prepare_flush(self.torch_device)

    def flush(self) -> float:
        """Empty the L2 cache; return the duration in microseconds."""
        from warpsmith.machines.cuda.flush import flush

        return flush(self.torch_device)

    def reserved_bytes(self) -> int:
        """Return the bytes that torch's allocator holds here."""
        import torch

        return torch.cuda.memory_reserved(self.torch_device)

    def release_cache(self) -> None:
        """Return torch's unused memory to the GPU, above 2 GiB."""
        # References of large cases take gigabytes. Emptying the cache waits for the device, so small
        # amounts stay.
        import torch

        if self.reserved_bytes() > MOST_RESERVED:
            torch.cuda.empty_cache()

    def free_and_total_bytes(self) -> tuple[int, int]:
        """Return free and total bytes of device memory."""
        import torch

        return torch.cuda.mem_get_info(self.torch_device)

    def l2_bytes(self) -> int:
        """Return the size of the L2 cache."""
        import torch

        return int(torch.cuda.get_device_properties(self.number).L2_cache_size)

    def start_worker(self, artifact: Path, runtime: Path, arenas: Sequence[SharedMemory], opening: ExitStack) -> Child:
        """Start a worker that inherits the arenas' descriptors."""
        # `visible_gpu` hides the other cards: a candidate could otherwise compute on a second GPU, where
        # no event of the timed stream waits for the work.
        policy = worker_policy(artifact, runtime, LIMITS, visible_gpu(self.uuid), devices=True)
        return opening.enter_context(start(policy, [arena.fd for arena in arenas]))


CUDA = CudaAccess()  # the first visible GPU
