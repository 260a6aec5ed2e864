"""A flush of the L2 cache."""

import secrets
from collections.abc import Callable
from functools import cache

import torch

FLUSH_BYTES = 256 << 20  # more than four times the largest L2 of today


@cache
def _scratch(device: str) -> torch.Tensor:
    """Return the scratch memory of a flush, allocated once."""
    # Allocated before any code of the candidate runs, and kept: a later allocation could fail because the
    # candidate holds the memory.
    return torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)


def events_us(work: Callable[[], object]) -> float:
    """Return the GPU time of queued work in microseconds."""
    # Events are recorded on the current stream only. Work on a stream that the current one does not wait
    # for is not contained, which is why captures refuse such work.
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


def prepare_flush(device: str = "cuda") -> None:
    """Allocate the memory of a flush."""
    _scratch(device)


def flush(device: str = "cuda") -> float:
    """Flush the L2 twice; return the second duration in microseconds."""
    # The first pass writes back lines that other kernels left dirty, and keeps the device busy until the
    # second pass is queued. The second duration then depends on the memory alone, and an unusual one
    # shows that another program used the GPU.
    with torch.cuda.device(device):
        _write_and_read(device)
        return events_us(lambda: _write_and_read(device))


def _write_and_read(device: str) -> None:
    """Write the scratch memory, then read the same bytes."""
    # Read after write: lines that stay dirty would be written back during the candidate's call and
    # counted as its traffic.
    _scratch(device).fill_(secrets.randbelow(1 << 20))
    torch.sum(_scratch(device), dtype=torch.int64)
