"""Facts about the hardware and tools of this machine. Starts nothing on a GPU and loads no torch."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.hardware.ceilings import load_ceilings, save_ceilings
    from warpsmith.machines.hardware.facts import (
        SM_LIMITS,
        Gpu,
        GpuState,
        MemoryUse,
        SmLimits,
        arch_of,
        capability_of,
        sm_limits,
    )
    from warpsmith.machines.hardware.gpu import administers, gpu_memory, gpu_state, gpus, profiling_restricted
    from warpsmith.machines.hardware.leases import Need, calling, is_held_alone, lease, much_memory
    from warpsmith.machines.hardware.nvml import FakeDriver, GpuDriver, NvmlDriver
    from warpsmith.machines.hardware.roofline import arithmetic_us, floor_us, memory_us
    from warpsmith.machines.hardware.tools import InstalledTool, program

__getattr__ = lazy_members(__name__)
