"""The judge of a real GPU without the GPU: its memory is the host's, its workers run on the virtual GPU.

Sessions, players, recordings and stages are the package's own. Doubles stand for what only a machine with a GPU has:
the driver's memory (the kernel's, mapped by both processes), torch on a GPU (torch on the CPU), the worker's driver and
runtime (the stand-ins), and torch's own times (given). A time that comes out is worth nothing, and so no clock is
doubted here.
"""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from warpsmith.base import Home
from warpsmith.evaluation import EvaluationConfig, profile
from warpsmith.evaluation.timing import capture, rules, sample, session as timing_session, stage as timing_stage
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.evaluation.timing.rules import StopRule
from warpsmith.isolation import Child, ProcessLimits
from warpsmith.machines.cuda import flush, room as cuda_room, session as cuda_session
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.cuda.memory import whole_granules
from warpsmith.machines.cuda.session import FIRST_FD, CudaSession
from warpsmith.machines.hardware import FakeDriver, Gpu, MemoryUse, gpu
from warpsmith.machines.virtual import ExecutorSettings, Gone, VirtualGpu, describe, driver, runtime
from warpsmith.machines.virtual.machine import LIMITS as VIRTUAL_LIMITS
from warpsmith.machines.worker.run import SOCKET_VARIABLE
from warpsmith.machines.worker.worker import start, worker_policy
from warpsmith.records import Ceilings, Group
from warpsmith.tasks.inspection.modes import run_on_device

LIMITS = ProcessLimits(
    wall_s=600, cpu_s=300, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20, address_space=False
)
SETTINGS = ExecutorSettings(instruction_budget=1_000_000_000, memory_bytes=2 << 30, wall_s=600)
FEW_BYTES = 1 << 20  # where a real GPU has a gigabyte or a quarter of one: every call paints and reads it
GPU = Gpu("NVIDIA H200", "580.1", 143771, "9.0")
# The calls that the virtual GPU is asked for when it is the only machine: it executes them here.
MACHINE = CudaMachine(GPU, replace(VIRTUAL_LIMITS, streak_s=5.0))
CEILINGS = Ceilings(
    gpu=GPU.name, measured=True, read_bytes_per_s=4.2e12, write_bytes_per_s=4.0e12, copy_bytes_per_s=4.1e12
)
TORCH_US = 30.0
# How a kernel is tried here: one small case is timed.
SEARCH = EvaluationConfig(device="cuda", cases=(Group.SMOKE,), most_cases=1)
ON_A_GPU = pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.leases])
ANY_US = 1e9  # how far two clocks may differ
RULE = StopRule(width=0.01, least=5, most=31, seconds=60.0)


class Lent:
    """What an arena is where a GPU is: memory of ours that another process maps too."""

    def __init__(self, size: int) -> None:
        self.bytes = whole_granules(size)
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


class Torch:
    """The process of baselines: the same time for every mode."""

    def time(self, _request: TorchRequest) -> TorchReply:
        return TorchReply(idle_us=(TORCH_US,) * 5, queued_us=(TORCH_US,) * 5, flush_us=(400.0,) * 5)


class Counters(FakeDriver):
    """The device's counters: all virtual GPUs that are running are one card, and its memory that of one of them."""

    begun: ClassVar[list[tuple[VirtualGpu, Child]]] = []
    names_processes = True  # as a container may hide

    def memory(self, uuid: str) -> MemoryUse | None:
        alive = [(virtual, child) for virtual, child in self.begun if child.is_alive]
        held = {child._process.pid: taken for virtual, child in alive if (taken := self._taken(virtual))}
        total = SETTINGS.memory_bytes
        return MemoryUse(max(0, total - sum(held.values())), total, held if self.names_processes else {})

    @staticmethod
    def _taken(virtual: VirtualGpu) -> int:
        try:
            free, total = virtual.control.memory()
        except Gone:
            return 0
        return total - free


def starting(opened: ExitStack) -> Callable[[CudaSession], Child]:
    """How a session starts its worker: with a virtual GPU that maps the same arenas."""

    def begin(session: CudaSession) -> Child:
        lent = [arena.fd for arena in session._arenas]
        virtual = opened.enter_context(VirtualGpu(describe("H200"), SETTINGS, lent=lent))
        more = {SOCKET_VARIABLE: str(FIRST_FD + len(lent)), "LD_PRELOAD": str(driver())}
        policy = worker_policy(session._artifact, runtime().parent, LIMITS, more)
        child = start(replace(policy, read=(*policy.read, driver().parent)), [*lent, virtual.client.fileno()])
        virtual.client.close()
        Counters.begun.append((virtual, child))
        return child

    return begin


@contextmanager
def rehearsed(patch: pytest.MonkeyPatch, data: Path) -> Iterator[None]:
    """In here there is a GPU, and what runs on it runs on the virtual one; `data` keeps what evaluations keep."""
    home = Home(data, Home.locate().cache)
    patch.setattr(Home, "locate", lambda: home)
    patch.setattr(gpu, "nvml_driver", lambda: Counters((GPU,)))
    patch.setattr(Counters, "begun", [])
    patch.setattr(CudaMachine, "first", lambda *_: MACHINE)
    _lend_memory(patch)
    _without_clocks(patch)
    _torch_on_host(patch)
    with ExitStack() as opened, run_on_device():
        patch.setattr(CudaSession, "_start", starting(opened))
        yield


def _lend_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cuda_room, "Arena", Lent)
    patch.setattr(cuda_room, "SCRATCH", FEW_BYTES)
    for module in (cuda_room, cuda_session, capture):
        patch.setattr(module, "TAIL", FEW_BYTES)
    small = torch.zeros(FEW_BYTES // 4, dtype=torch.int32)
    patch.setattr(flush, "_scratch", lambda: small)


def _without_clocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(profile, "find_ceilings", lambda *_where: CEILINGS)
    patch.setattr(timing_session, "open_baseline_host", lambda *_which: Torch())
    patch.setattr("warpsmith.evaluation.timing.preload_torch", lambda *_which: None)
    patch.setattr(timing_stage, "SEARCH", RULE)
    patch.setattr(sample, "find_undisturbed", lambda flushes_us: [True] * len(flushes_us))
    for module in (rules, sample):
        patch.setattr(module, "slack_us", lambda _time_us: ANY_US)


def _torch_on_host(patch: pytest.MonkeyPatch) -> None:
    for name in ("init", "synchronize", "empty_cache"):
        patch.setattr(torch.cuda, name, lambda: None)
    patch.setattr(torch.cuda, "Event", Event)
    patch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    patch.setattr(torch.cuda, "mem_get_info", lambda: (GPU.memory_mib << 20, GPU.memory_mib << 20))
    patch.setattr(torch.cuda, "get_device_properties", lambda _number: SimpleNamespace(L2_cache_size=60 << 20))
