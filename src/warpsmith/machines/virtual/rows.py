"""Counters of one kernel with one launch shape, summed over its launches."""

from collections.abc import Mapping
from math import ceil, prod

from pydantic import Field

from warpsmith.machines.virtual.description import Description
from warpsmith.records import Model

WARP = 32


class Counters(Model):
    """The engine's counters, summed over launches."""

    thread_instructions: int = 0
    warp_instructions: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    global_load_requests: int = 0
    global_store_requests: int = 0
    global_load_bytes: int = 0
    global_store_bytes: int = 0
    unique_read_bytes: int = 0
    unique_written_bytes: int = 0
    shared_wavefronts: int = 0
    shared_requests: int = 0
    bank_conflicts: int = 0
    local_bytes: int = 0
    atomics: int = 0
    divergent_branches: int = 0
    branches: int = 0
    barriers: int = 0
    longest_thread: int = 0  # warp instructions on the longest way through the kernel


class LaunchRow(Model):
    """One kernel with one launch shape."""

    kernel: str
    launches: int = Field(ge=1)
    in_graph: bool = False
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0
    static_shared: int = 0
    registers: int = 0
    blocks_per_sm: int = 0
    counters: Counters = Counters()
    classes: Mapping[str, int] = Field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """The blocks of one launch."""
        return prod(self.grid)

    @property
    def warps_per_block(self) -> int:
        """The warps of one block."""
        return ceil(prod(self.block) / WARP)

    def occupancy(self, gpu: Description) -> float:
        """Return the share of an SM's warps that fit."""
        return min(1.0, self.blocks_per_sm * self.warps_per_block * WARP / gpu.limits.threads_per_sm)
