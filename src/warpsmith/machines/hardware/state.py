"""What the first GPU is doing at this moment: clocks, what holds them back, who computes on it."""

from ctypes import CDLL, byref, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from functools import cache

# nvml.h, nvmlClocksEventReason…: those that make times worth nothing, and those that are only told.
SLOWED = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat in hardware", 0x80: "the power brake"}
TOLD = {0x4: "the power cap", 0x10: "a sync boost group"}
SM, MEMORY = 1, 2  # nvmlClockType_t


@dataclass(frozen=True)
class GpuState:
    """What the GPU is doing at this moment: its clocks, what holds them back, and how many processes compute on it."""

    clocks_mhz: tuple[int, int] | None = None  # SM and memory
    reasons: int = 0
    processes: int = 0

    @property
    def slowed(self) -> tuple[str, ...]:
        """What slows it down beyond its usual governing."""
        return tuple(name for bit, name in SLOWED.items() if self.reasons & bit)

    @property
    def told(self) -> tuple[str, ...]:
        """All that holds its clocks back."""
        return tuple(name for bit, name in {**SLOWED, **TOLD}.items() if self.reasons & bit)


def gpu_state() -> GpuState:
    """Of the first GPU; empty where nothing answers."""
    library = _nvml()
    if library is None:
        return GpuState()
    device, reasons, count = c_void_p(), c_ulonglong(), c_uint()
    if library.nvmlDeviceGetHandleByIndex_v2(0, byref(device)):
        return GpuState()
    clocks = [_clock(library, device, kind) for kind in (SM, MEMORY)]
    library.nvmlDeviceGetCurrentClocksThrottleReasons(device, byref(reasons))
    # Without room for the list the answer is how long it would be.
    library.nvmlDeviceGetComputeRunningProcesses_v3(device, byref(count), None)
    known = (clocks[0], clocks[1]) if all(clocks) else None
    return GpuState(known, int(reasons.value), int(count.value))


def _clock(library: CDLL, device: c_void_p, kind: int) -> int:
    found = c_uint()
    return 0 if library.nvmlDeviceGetClockInfo(device, kind, byref(found)) else int(found.value)


@cache
def _nvml() -> CDLL | None:
    """The driver's own library: an evaluation asks several times, and nvidia-smi takes a tenth of a second to start."""
    try:
        library = CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library
