"""Modes of torch that baselines measure, one row each."""

from enum import StrEnum
from typing import Self


class TorchMode(StrEnum):
    """A mode of torch.

    The columns: name; the mode of torch.compile, or "" if nothing is compiled; whether it runs under a CUDA graph that
    warpsmith captures; whether compilation can be prepared while others use the GPU; whether it times kernels.
    """

    compiler: str
    graph: bool
    prepared: bool
    picks_by_timing: bool

    EAGER = "eager", "", False, False, False
    COMPILE = "compile", "default", False, True, False
    # The variant without CUDA graphs: a graph of torch would hide launches, so warpsmith captures graphs as modes of
    # their own.
    MAX_AUTOTUNE = "max-autotune", "max-autotune-no-cudagraphs", False, True, True
    EAGER_GRAPH = "eager-graph", "", True, False, False
    COMPILE_GRAPH = "compile-graph", "default", True, False, False

    def __new__(cls, name: str, compiler: str, graph: bool, prepared: bool, picks_by_timing: bool) -> Self:
        one = str.__new__(cls, name)
        one._value_ = name
        one.compiler, one.graph, one.prepared, one.picks_by_timing = compiler, graph, prepared, picks_by_timing
        return one

    @classmethod
    def from_name(cls, name: str) -> "TorchMode":
        """Return the mode of a known name."""
        return next(mode for mode in cls if mode == name)


MODES = tuple(TorchMode)
