"""The visible NVIDIA GPUs and their profiling rights."""

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
    """Return the visible GPUs with CUDA's numbers; none without a driver."""
    # NVML lists every card and ignores CUDA_VISIBLE_DEVICES. CUDA numbers only the visible ones, so the
    # variable is applied here in the same way.
    found = (driver or nvml_driver()).gpus()
    chosen = found if VISIBLE not in environ else visible(found, environ[VISIBLE])
    return tuple(replace(gpu, number=number) for number, gpu in enumerate(chosen))


def visible(found: Sequence[Gpu], value: str) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names."""
    # As in CUDA, the first name without a GPU hides all later ones, and a GPU that is named twice hides
    # every GPU.
    chosen: list[Gpu] = []
    for name in (word.strip() for word in value.split(",")):
        if (gpu := _named(found, name)) is None:
            break
        chosen.append(gpu)
    return tuple(chosen) if len(set(chosen)) == len(chosen) else ()


def _named(found: Sequence[Gpu], name: str) -> Gpu | None:
    """Return the GPU of a name, or None; raise MachineError for MIG."""
    # A prefix that fits several cards names none of them. MIG slices are refused: neighbours on the same
    # card share the L2 and the memory bandwidth, so no time could be trusted.
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
    """Return a GPU's state; empty without a driver."""
    return (driver or nvml_driver()).state(uuid)


def gpu_memory(uuid: str, driver: GpuDriver | None = None) -> MemoryUse | None:
    """Return a GPU's memory use, or None without a driver."""
    return (driver or nvml_driver()).memory(uuid)


def profiling_restricted(parameters: Path = PARAMETERS) -> bool | None:
    """Return whether counters need administrator rights; None if unknown."""
    if not parameters.exists():
        return None
    for line in parameters.read_text().splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split(":")[1].strip() == "1"
    return None


def administers(status: Path = STATUS) -> bool:
    """Return whether this process has CAP_SYS_ADMIN."""
    # Root in a container usually lacks the capability, so the user id says nothing.
    if not status.exists():
        return False
    for line in status.read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split(":")[1], 16) >> SYS_ADMIN & 1)
    return False
