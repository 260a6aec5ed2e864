"""What hardware and tools are here. Facts only: nothing is started on a GPU and no torch is loaded."""

from warpsmith.device.gpu import Gpu, gpus, profiling_restricted
from warpsmith.device.tools import Program, program

__all__ = ["Gpu", "Program", "gpus", "profiling_restricted", "program"]
