"""A flush of the L2 cache, which writes and then reads more than any L2 holds."""

import secrets
from collections.abc import Callable
from functools import cache

import torch

FLUSH_BYTES = 256 << 20  # more than four times the largest L2 of today


@cache
def _scratch(device: str) -> torch.Tensor:
    return torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)


def events_us(work: Callable[[], object]) -> float:
    """Return the duration of queued work on the current GPU, by events on the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


def prepare_flush(device: str = "cuda") -> None:
    """Allocate the memory of a flush, while there is some."""
    _scratch(device)


def flush(device: str = "cuda") -> float:
    """Write and read twice; return the duration of the second time in microseconds.

    Read after the write: dirty lines would bill the candidate. The first time takes out what others left dirty, and
    keeps the device busy until all is queued, so that the time is the memory's alone, however busy the host is.
    """
    with torch.cuda.device(device):
        _write_and_read(device)
        return events_us(lambda: _write_and_read(device))


def _write_and_read(device: str) -> None:
    _scratch(device).fill_(secrets.randbelow(1 << 20))
    torch.sum(_scratch(device), dtype=torch.int64)
