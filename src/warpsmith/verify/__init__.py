"""Before the GPU: what can be said of a candidate without one."""

from warpsmith.verify.virtual import VirtualRun, run_virtual

__all__ = ["VirtualRun", "run_virtual"]
