"""What hardware and tools are here. Facts only: nothing is started on a GPU and no torch is loaded."""

from warpsmith.device.ceilings import load_ceilings, save_ceilings
from warpsmith.device.gpu import Gpu, administers, gpus, profiling_restricted, utilization
from warpsmith.device.roofline import arithmetic_us, floor_us, memory_us
from warpsmith.device.state import GpuState, state
from warpsmith.device.tools import Program, program

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
