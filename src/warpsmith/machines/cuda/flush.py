"""The cold cache: more is written and then read than any L2 holds, the same way for candidates and for baselines."""

import secrets
from collections.abc import Callable
from functools import cache

import torch

FLUSH_BYTES = 256 << 20  # more than four times the largest L2 of today


@cache
def _scratch() -> torch.Tensor:
    return torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")


def events_us(work: Callable[[], object]) -> float:
    """How long the queued work of a function takes on this GPU, by events on the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


def prepare_flush() -> None:
    """Allocate what a flush needs, while there is memory."""
    _scratch()


def flush() -> float:
    """Write and read twice, and say how long the second time took just now, in µs.

    Read after the write: dirty lines would bill the candidate. The first time takes out what others left dirty, and
    keeps the device busy until all is queued, so that the time is the memory's alone, however busy the host is.
    """
    _write_and_read()
    return events_us(_write_and_read)


def _write_and_read() -> None:
    _scratch().fill_(secrets.randbelow(1 << 20))
    torch.sum(_scratch(), dtype=torch.int64)
