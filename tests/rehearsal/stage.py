"""A real GPU's side of the judge without the GPU: its memory is the host's, its workers run on the virtual GPU.

Sessions, players, recordings and stages are the package's own. What is put in place of the real thing: memory of the
driver's by memory of the kernel's, torch on the GPU by torch on the CPU, and the worker's driver and runtime by the
stand-ins. Times are of nothing.
"""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from warpsmith.confine import Child, Limits
from warpsmith.sandbox import cuda_room, cuda_session, flush
from warpsmith.sandbox.cuda_memory import GRANULE
from warpsmith.sandbox.cuda_session import FIRST_FD, CudaSession
from warpsmith.sandbox.run import SOCKET_VARIABLE
from warpsmith.sandbox.worker import start, worker_policy
from warpsmith.tasks.modes import on_device
from warpsmith.timing import recording
from warpsmith.vgpu import Settings, VirtualGpu, describe, driver, runtime

LIMITS = Limits(wall_s=600, cpu_s=300, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20, address_space=False)
SETTINGS = Settings(memory_bytes=2 << 30, wall_s=600)
FEW_BYTES = 1 << 20  # where a real GPU has a gigabyte or a quarter: every call paints and reads it
L2_BYTES = 60 << 20


class Lent:
    """What an arena is where a GPU is: memory of ours that another process maps too."""

    def __init__(self, size: int) -> None:
        self.bytes = (max(size, 1) + GRANULE - 1) // GRANULE * GRANULE
        self.fd = os.memfd_create("arena")
        os.ftruncate(self.fd, self.bytes)
        self._map = mmap.mmap(self.fd, self.bytes)

    def view(self) -> Tensor:
        return torch.frombuffer(self._map, dtype=torch.uint8)

    def __enter__(self) -> "Lent":
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self.fd)


class Event:
    """torch's, by the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at_s = time.perf_counter()

    def elapsed_time(self, other: "Event") -> float:
        return (other.at_s - self.at_s) * 1e3


def starting(opened: ExitStack) -> Callable[[CudaSession], Child]:
    """How a session starts its worker: with a virtual GPU that maps the same arenas."""

    def begin(session: CudaSession) -> Child:
        lent = [arena.fd for arena in session._arenas]
        gpu = opened.enter_context(VirtualGpu(describe("H200"), SETTINGS, lent=lent))
        folders = [runtime().parent, driver().parent]
        more = {SOCKET_VARIABLE: str(FIRST_FD + len(lent)), "LD_PRELOAD": str(driver())}
        policy = worker_policy(session._artifact, folders[0], LIMITS, more)
        child = start(replace(policy, read=(*policy.read, *folders)), [*lent, gpu.client.fileno()])
        gpu.client.close()
        return child

    return begin


@contextmanager
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In here a GPU's sessions run on the virtual one."""
    monkeypatch.setattr(cuda_room, "Arena", Lent)
    monkeypatch.setattr(cuda_room, "SCRATCH", FEW_BYTES)
    for module in (cuda_room, cuda_session, recording):
        monkeypatch.setattr(module, "TAIL", FEW_BYTES)
    monkeypatch.setattr(flush, "FLUSH_BYTES", FEW_BYTES)
    for name in ("init", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (SETTINGS.memory_bytes, SETTINGS.memory_bytes))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=L2_BYTES))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    with ExitStack() as opened, on_device():
        monkeypatch.setattr(CudaSession, "_start", starting(opened))
        flush._scratch.cache_clear()
        yield
    flush._scratch.cache_clear()
