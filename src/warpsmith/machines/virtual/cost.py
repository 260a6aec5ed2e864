"""The cost model: modelled time and binding resource of a launch."""
# Each resource gives a lower bound for one launch, and the largest bound binds. Bounds of an SM's own
# resources are stretched by the last, partly filled wave of blocks. The model is validated by rank within
# one task and shape; it is never used as a clock.

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from warpsmith.machines.virtual.description import Description
from warpsmith.machines.virtual.rows import LaunchRow
from warpsmith.records import ModelledTime

SECTOR_BYTES = 32
ISSUE_PER_CLOCK = 4.0  # warp schedulers of an SM
L1_BYTES_PER_CLOCK = 128.0  # of an SM: what the load-store path moves
L1_MISS = 0.5  # of the sectors a launch loads again, how many the L1 does not hold
LOADS_IN_FLIGHT = 4.0  # independent loads that a compiler keeps going in a warp, when no store stands between them
LANE_BYTES = 4  # what an atomic touches
SLICE_BYTES = 4096  # of consecutive memory lie in one slice of the L2, as far as atomics show
SLICES = 64
FOLDED = ("move", "param")  # PTX that becomes operands of other instructions: renamed registers, constant memory
UNSLOTTED = (*FOLDED, "wgmma")  # wgmma is counted by how much it multiplies, not by instructions


@dataclass(frozen=True)
class LaunchCost:
    """One launch: bounds in microseconds, and its start cost."""

    bounds_us: Mapping[str, float]
    start_us: float

    @property
    def binding(self) -> str:
        """The resource with the largest bound, or `launch`."""
        name = max(self.bounds_us, key=self.bounds_us.__getitem__)
        return name if self.bounds_us[name] > self.start_us else "launch"

    @property
    def us(self) -> float:
        """The modelled microseconds of the launch."""
        return self.start_us + max(self.bounds_us.values())

    def modelled(self, gpu: Description) -> ModelledTime:
        """Return the cost as a record."""
        return ModelledTime(us=self.us, gpu=gpu.name, binding=self.binding)


@dataclass(frozen=True)
class _Shape:
    """The distribution of a launch's blocks over the SMs."""

    sms: int  # that have work
    waves: int
    stretch: float  # what the last wave costs
    resident_warps: float  # of a busy SM

    @classmethod
    def of(cls, row: LaunchRow, gpu: Description) -> "_Shape":
        """Return the distribution from occupancy and grid size."""
        # `stretch` is whole waves over the real number of waves: 1.5 waves take as long as 2. Below one
        # wave nothing is stretched, since idle SMs are already missing from `sms`.
        resident = max(1, row.blocks_per_sm)
        slots = gpu.sm_count * resident
        waves = ceil(row.blocks / slots)
        full = row.blocks / slots
        held = min(resident, ceil(row.blocks / gpu.sm_count))
        return cls(min(gpu.sm_count, row.blocks), waves, waves / full if full > 1 else 1.0, held * row.warps_per_block)


def modelled_cost(row: LaunchRow, gpu: Description) -> LaunchCost:
    """Return the mean cost of one launch."""
    shape = _Shape.of(row, gpu)
    own = {name: us * shape.stretch for name, us in (_inside(row, gpu, shape) | _pipes(row, gpu, shape)).items()}
    bounds = _memory(row, gpu) | own | {"latency": _latency(row, gpu, shape)}
    return LaunchCost(bounds, gpu.rates.graph_node_us if row.in_graph else gpu.rates.launch_us)


@dataclass(frozen=True)
class Transfers:
    """The number and bytes of copies and memsets."""

    count: int = 0
    bytes: int = 0


NO_TRANSFERS = Transfers()


def total(rows: Iterable[LaunchRow], gpu: Description, transfers: Transfers = NO_TRANSFERS) -> ModelledTime:
    """Return the modelled time of a call."""
    # Launches and transfers are added up: on one stream they run one after the other. The largest share
    # is the binding resource of the call.
    shares: dict[str, float] = {"launch": 0.0}
    for row in (rows := tuple(rows)):
        one = modelled_cost(row, gpu)
        shares[one.binding] = shares.get(one.binding, 0.0) + one.us * row.launches
    if any(row.in_graph for row in rows):  # a graph of however few nodes is started once
        shares["launch"] += gpu.rates.launch_us
    if transfers.count:
        moved = 2e6 * transfers.bytes / gpu.rates.copy_bytes_per_s  # read and written
        shares["transfers"] = transfers.count * gpu.rates.launch_us + moved
    return ModelledTime(us=sum(shares.values()), gpu=gpu.name, binding=max(shares, key=shares.__getitem__))


def _memory(row: LaunchRow, gpu: Description) -> dict[str, float]:
    """Return the bounds of memory shared by all SMs."""
    # DRAM counts distinct bytes only, since repeated reads hit in the caches. Of the sectors that are
    # loaded again, half are taken to miss the L1.
    counts, launches = row.counters, row.launches
    loaded = SECTOR_BYTES * counts.global_load_sectors
    missed = counts.unique_read_bytes + max(0, loaded - counts.unique_read_bytes) * L1_MISS
    unique = counts.unique_read_bytes + counts.unique_written_bytes
    return {
        "dram": unique * 1e6 / gpu.rates.copy_bytes_per_s / launches,
        "l2": missed * 1e6 / gpu.rates.l2_bytes_per_s / launches,
        "stores": _stores_us(row, gpu) / launches,
        "atomics": _atomics_us(row, gpu) / launches,
    }


def _stores_us(row: LaunchRow, gpu: Description) -> float:
    """Return the time of stores in microseconds."""
    # Stores bypass the L1. A sector that is written in part makes the L2 read the rest of the 32 bytes
    # first, at a lower rate.
    counts = row.counters
    stored = counts.global_store_sectors * SECTOR_BYTES
    parts = max(0, stored - counts.global_store_bytes)
    return 1e6 * max(stored / gpu.rates.l2_bytes_per_s, parts / gpu.rates.l2_store_bytes_per_s)


def _inside(row: LaunchRow, gpu: Description, shape: _Shape) -> dict[str, float]:
    """Return the bounds of each SM's own memory."""
    counts, clocks = row.counters, gpu.clock_mhz * shape.sms * row.launches  # SM-clocks a microsecond
    moved = SECTOR_BYTES * (counts.global_load_sectors + counts.global_store_sectors) + counts.local_bytes
    return {"l1": moved / (L1_BYTES_PER_CLOCK * clocks), "shared": counts.shared_wavefronts / clocks}


def _atomics_us(row: LaunchRow, gpu: Description) -> float:
    """Return the time of global atomics in microseconds."""
    # An L2 slice takes one sector at a time, and lanes on the same address queue behind each other. Few
    # distinct addresses use few slices, which divides the rate.
    counts = row.counters
    lanes = min(counts.atomics, counts.global_store_bytes // LANE_BYTES)  # the rest were on shared memory
    if lanes == 0:
        return 0.0
    sectors = counts.global_store_sectors * lanes * LANE_BYTES / counts.global_store_bytes
    queued = max(0.0, lanes - sectors * SECTOR_BYTES / LANE_BYTES)
    slices = min(SLICES, max(1.0, counts.unique_written_bytes / row.launches / SLICE_BYTES))
    seconds = sectors / gpu.rates.atomic_sectors_per_s + queued / gpu.rates.atomic_lanes_per_s
    return seconds * 1e6 / slices


def _in_flight(row: LaunchRow) -> float:
    """Return the loads that a warp has in flight."""
    # Compilers move no load past a store to memory that may alias, so a loop with one store a load keeps
    # one load in flight.
    loads, stores = row.counters.global_load_requests, row.counters.global_store_requests
    between = min(1.0, stores / loads) if loads else 1.0
    return 1.0 + (LOADS_IN_FLIGHT - 1.0) * (1.0 - between)


def _load_clocks(row: LaunchRow, gpu: Description) -> float:
    """Return the mean latency of a load in clocks."""
    # The first read of a byte comes from DRAM; the counters know the share of distinct bytes.
    loaded = row.counters.global_load_sectors * SECTOR_BYTES
    first = min(1.0, row.counters.unique_read_bytes / loaded) if loaded else 1.0
    return first * gpu.rates.memory_latency_clocks + (1.0 - first) * gpu.rates.hit_latency_clocks


def _pipes(row: LaunchRow, gpu: Description, shape: _Shape) -> dict[str, float]:
    """Return the bounds of the arithmetic pipes and of issue."""
    clocks = gpu.clock_mhz * shape.sms
    found = {
        f"{name} pipe": count / row.launches / gpu.pipes.get(name, ISSUE_PER_CLOCK) / clocks
        for name, count in row.classes.items()
        if name not in FOLDED
    }
    issued = _issued(row) / row.launches
    few = min(1.0, shape.resident_warps / ISSUE_PER_CLOCK)  # fewer warps than schedulers leave some idle
    return found | {"issue": issued / (ISSUE_PER_CLOCK * few) / clocks}


def _issued(row: LaunchRow) -> float:
    """Return the issued warp instructions, without folded PTX."""
    # PTX is not machine code: moves and parameter loads become operands of other instructions and take no
    # issue slot, while a division becomes many instructions.
    if not row.classes:
        return row.counters.warp_instructions
    return sum(count for name, count in row.classes.items() if name not in UNSLOTTED)


def _latency(row: LaunchRow, gpu: Description, shape: _Shape) -> float:
    """Return the time of the longest warp in microseconds."""
    # A lower bound that no occupancy can hide: dependent instructions of one warp run one after the
    # other, once for each wave.
    counts = row.counters
    warps = max(1, row.blocks * row.warps_per_block)
    loads = counts.global_load_requests / row.launches / warps
    written = _issued(row) / counts.warp_instructions if counts.warp_instructions else 1.0
    steps = counts.longest_thread / row.launches * written * gpu.rates.instruction_latency_clocks
    waits = loads / _in_flight(row) * _load_clocks(row, gpu)
    return shape.waves * (steps + waits) / gpu.clock_mhz
