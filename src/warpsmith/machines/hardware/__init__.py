"""What hardware and tools are here. Facts only: nothing is started on a GPU and no torch is loaded."""

from warpsmith.machines.hardware.ceilings import load_ceilings, save_ceilings
from warpsmith.machines.hardware.gpu import Gpu, administers, gpus, profiling_restricted, utilization
from warpsmith.machines.hardware.roofline import arithmetic_us, floor_us, memory_us
from warpsmith.machines.hardware.state import GpuState, state
from warpsmith.machines.hardware.tools import Program, program

__all__ = [
    "Gpu",
    "GpuState",
    "Program",
    "administers",
    "arithmetic_us",
    "floor_us",
    "gpus",
    "load_ceilings",
    "memory_us",
    "profiling_restricted",
    "program",
    "save_ceilings",
    "state",
    "utilization",
]
