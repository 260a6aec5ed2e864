"""The NVIDIA GPUs that this process may use, and what a profiler may do on this machine."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from warpsmith.base import MachineError
from warpsmith.machines.hardware.facts import Gpu, GpuState, MemoryUse
from warpsmith.machines.hardware.nvml import GpuDriver, nvml_driver

VISIBLE = "CUDA_VISIBLE_DEVICES"
PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
SYS_ADMIN = 21  # the bit of CAP_SYS_ADMIN


def gpus(driver: GpuDriver | None = None, environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, numbered as CUDA numbers them; none without a driver."""
    found = (driver or nvml_driver()).gpus()
    chosen = found if VISIBLE not in environ else visible(found, environ[VISIBLE])
    return tuple(replace(gpu, number=number) for number, gpu in enumerate(chosen))


def visible(found: Sequence[Gpu], value: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a value of CUDA_VISIBLE_DEVICES names: indices, or UUIDs and prefixes of them.

    As in CUDA, the first name that fits no GPU hides the rest, and a GPU that is named twice hides all.
    """
    chosen: list[Gpu] = []
    for name in (word.strip() for word in value.split(",")):
        if (gpu := _named(found, name)) is None:
            break
        chosen.append(gpu)
    return tuple(chosen) if len(set(chosen)) == len(chosen) else ()


def _named(found: Sequence[Gpu], name: str) -> Gpu | None:
    if name.startswith("MIG"):
        raise MachineError(
            f"{VISIBLE} names {name}, a MIG slice of a GPU; times on a slice depend on its neighbours. "
            "Name a whole GPU by its index or its UUID."
        )
    if name.isdigit():
        return found[int(name)] if int(name) < len(found) else None
    fit = [gpu for gpu in found if name.startswith("GPU-") and gpu.uuid.startswith(name)]
    return fit[0] if len(fit) == 1 else None


def gpu_state(uuid: str, driver: GpuDriver | None = None) -> GpuState:
    """Return what the GPU of that UUID is doing now; empty where no driver answers."""
    return (driver or nvml_driver()).state(uuid)


def gpu_memory(uuid: str, driver: GpuDriver | None = None) -> MemoryUse | None:
    """Return the memory of the GPU of that UUID and who holds it, or None where no driver answers."""
    return (driver or nvml_driver()).memory(uuid)


def profiling_restricted(parameters: Path = PARAMETERS) -> bool | None:
    """Whether the driver keeps hardware counters for administrators; None when it does not say."""
    if not parameters.exists():
        return None
    for line in parameters.read_text().splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split(":")[1].strip() == "1"
    return None


def administers(status: Path = STATUS) -> bool:
    """Whether this process has CAP_SYS_ADMIN, which counters need where the driver restricts them; root may lack it."""
    if not status.exists():
        return False
    for line in status.read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split(":")[1], 16) >> SYS_ADMIN & 1)
    return False
