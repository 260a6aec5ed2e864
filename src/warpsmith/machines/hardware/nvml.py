"""NVIDIA's management library as a protocol, real and fake."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

import pynvml

from warpsmith.machines.hardware.facts import Gpu, GpuState, MemoryUse

T = TypeVar("T")


class GpuDriver(Protocol):
    """The GPUs of a machine and their states, by UUID."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs in PCI order; none without a driver."""
        ...

    def state(self, uuid: str) -> GpuState:
        """Return a GPU's state; empty without an answer."""
        ...

    def memory(self, uuid: str) -> MemoryUse | None:
        """Return a GPU's memory use, or None without an answer."""
        ...


@dataclass(frozen=True)
class FakeDriver:
    """A driver with given GPUs, states and memory."""

    found: tuple[Gpu, ...] = ()
    states: Mapping[str, GpuState] = field(default_factory=dict)
    uses: Mapping[str, MemoryUse] = field(default_factory=dict)

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the given GPUs."""
        return self.found

    def state(self, uuid: str) -> GpuState:
        """Return the given state."""
        return self.states.get(uuid, GpuState())

    def memory(self, uuid: str) -> MemoryUse | None:
        """Return the given memory, or None."""
        return self.uses.get(uuid)


class NvmlDriver:
    """The driver of this machine through NVML."""

    # NVML is asked and not CUDA: a process that has opened CUDA's driver cannot fork children that use
    # the GPU, and a batch forks its evaluator processes.

    def __init__(self, library: Any = pynvml) -> None:
        self._nvml = library
        self._gpus: tuple[Gpu, ...] = ()
        self._opened = False

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs in PCI order; none without a driver."""
        # An empty list is not kept, so that a process notices a driver that answers later.
        if not self._gpus and self._is_open():
            count = self._answer(self._nvml.nvmlDeviceGetCount) or 0
            self._gpus = tuple(gpu for number in range(count) if (gpu := self._gpu(number)) is not None)
        return self._gpus

    def state(self, uuid: str) -> GpuState:
        """Return a GPU's state; empty without an answer."""
        # Every number is asked for by itself, since GPUs differ in what they report: one refused question
        # must not hide the throttle reasons.
        nvml, ask, device = self._nvml, self._answer, self._device(uuid)
        if device is None:
            return GpuState()
        sm = ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM))
        memory = ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM))
        running = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(device)) or ()
        busy = ask(lambda: nvml.nvmlDeviceGetUtilizationRates(device))
        return GpuState(
            clocks_mhz=(int(sm), int(memory)) if sm and memory else None,
            reasons=int(ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)) or 0),
            processes=len(running),
            busy_percent=None if busy is None else int(busy.gpu),
        )

    def memory(self, uuid: str) -> MemoryUse | None:
        """Return a GPU's memory use, or None without an answer."""
        device = self._device(uuid)
        found = None if device is None else self._answer(lambda: self._nvml.nvmlDeviceGetMemoryInfo(device))
        if found is None:
            return None
        running = self._answer(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(device)) or ()
        # In a container `usedGpuMemory` may be None, or the process numbers may be those of the host.
        # Entries without a size are left out, and `held_by` then answers None.
        held = {int(one.pid): int(one.usedGpuMemory) for one in running if one.usedGpuMemory}
        return MemoryUse(free_bytes=int(found.free), total_bytes=int(found.total), by_process=held)

    def _device(self, uuid: str) -> Any:
        """Return the library's handle of a GPU, or None."""
        return self._answer(lambda: self._nvml.nvmlDeviceGetHandleByUUID(uuid)) if uuid and self._is_open() else None

    def _is_open(self) -> bool:
        """Return whether the library answers, opening it if needed."""
        self._opened = self._opened or self._answer(lambda: self._nvml.nvmlInit() is None) is not None
        return self._opened

    def _gpu(self, number: int) -> Gpu | None:
        """Return one GPU, or None for a lost card."""
        nvml, ask = self._nvml, self._answer
        device = ask(lambda: nvml.nvmlDeviceGetHandleByIndex(number))
        name = None if device is None else ask(lambda: nvml.nvmlDeviceGetName(device))
        capability = None if name is None else ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(device))
        if name is None or capability is None:  # a card that the driver has lost
            return None
        memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device))  # one that shares the host's has no number
        return Gpu(
            name=_text(name),
            driver=_text(ask(nvml.nvmlSystemGetDriverVersion) or ""),
            memory_mib=0 if memory is None else int(memory.total) >> 20,
            capability=".".join(map(str, capability)),
            uuid=_text(ask(lambda: nvml.nvmlDeviceGetUUID(device)) or ""),
            number=number,
        )

    def _answer(self, question: Callable[[], T]) -> T | None:
        """Return the library's answer, or None if it refuses."""
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def _text(answer: str | bytes) -> str:
    """Return a text; older pynvml versions answer with bytes."""
    return answer.decode() if isinstance(answer, bytes) else answer


@cache
def nvml_driver() -> NvmlDriver:
    """Return the driver of this process, created once."""
    return NvmlDriver()
