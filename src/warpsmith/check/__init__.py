"""Is it right: the comparison of what a kernel returned with the float64 reference. Runs no candidate code."""

from warpsmith.check.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
