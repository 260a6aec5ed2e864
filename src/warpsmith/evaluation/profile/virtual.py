"""Profiles from the virtual GPU's counters, with modelled times."""

from collections.abc import Mapping, Sequence
from math import ceil

from warpsmith.evaluation.profile.binding import FEW_WARPS, MOST_SHOWN, percent
from warpsmith.evaluation.profile.words import plain_name
from warpsmith.machines.hardware import memory_us
from warpsmith.machines.virtual import Description, LaunchCost, LaunchRow, modelled_cost
from warpsmith.records import Binding, Ceilings, KernelProfile, Metric, RooflinePlace

SECTOR_BYTES = 32
WARP_FLOPS = {"fp32": 64, "tensor": 4096, "wgmma": 4096}  # fused multiply-adds of a warp; a product of 16x8x16
LANES = 128  # fp32 lanes of an SM
NAMES: Mapping[str, Binding] = {
    "dram": Binding.DRAM,
    "l2": Binding.L2,
    "stores": Binding.L2,
    "atomics": Binding.L2,
    "l1": Binding.L1,
    "global pipe": Binding.L1,
    "shared": Binding.SHARED,
    "shared pipe": Binding.SHARED,
    "tensor pipe": Binding.TENSOR,
    "wgmma pipe": Binding.TENSOR,
    "latency": Binding.LATENCY,
    "launch": Binding.LATENCY,
}


def datasheet_ceilings(gpu: Description) -> Ceilings:
    """Return the ceilings of a described GPU."""
    rates = gpu.rates
    scalar = 2.0 * LANES * gpu.sm_count * gpu.clock_mhz * 1e6
    return Ceilings(
        gpu=gpu.name,
        measured=False,
        read_bytes_per_s=rates.copy_bytes_per_s,
        write_bytes_per_s=rates.copy_bytes_per_s,
        copy_bytes_per_s=rates.copy_bytes_per_s,
        l2_bytes_per_s=rates.l2_bytes_per_s,
        matmul_flops_per_s={
            "float32": scalar,
            "float16": rates.tensor_flops_per_s,
            "bfloat16": rates.tensor_flops_per_s,
        },
        launch_us=rates.launch_us,
    )


def kernels(rows: Sequence[LaunchRow], gpu: Description) -> tuple[KernelProfile, ...]:
    """Return a profile for each kernel and launch shape."""
    return tuple(_kernel(row, gpu) for row in rows)


def longest(rows: Sequence[LaunchRow], gpu: Description) -> KernelProfile:
    """Return the profile of the longest kernel."""
    return max(kernels(rows, gpu), key=lambda kernel: kernel.spent_us)


def _kernel(row: LaunchRow, gpu: Description) -> KernelProfile:
    """Return one kernel's modelled profile."""
    counts, launches, spent = row.counters, row.launches, modelled_cost(row, gpu)
    requests = counts.global_load_requests + counts.global_store_requests
    sectors = counts.global_load_sectors + counts.global_store_sectors
    return KernelProfile(
        name=plain_name(row.kernel),
        launches=launches,
        grid=row.grid,
        block=row.block,
        time=spent.modelled(gpu),
        dram_read_bytes=counts.unique_read_bytes / launches,
        dram_written_bytes=counts.unique_written_bytes / launches,
        l2_bytes=sectors * SECTOR_BYTES / launches,
        sectors_per_request=sectors / requests if requests else None,
        bank_conflicts=counts.bank_conflicts / launches,
        flops=_flops(row),
        issue_active=spent.bounds_us["issue"] / spent.us,
        tensor_active=sum(spent.bounds_us.get(f"{name} pipe", 0.0) for name in ("tensor", "wgmma")) / spent.us,
        occupancy=resident(row, gpu),
        occupancy_limit=row.occupancy(gpu),
        limiter=limiter(row, gpu),
        registers=row.registers,
        shared_bytes=row.static_shared + row.dynamic_shared,
        place=place(row, spent, gpu),
    )


def place(row: LaunchRow, spent: LaunchCost, gpu: Description) -> RooflinePlace:
    """Return the kernel's place under the modelled roofline."""
    counts, launches = row.counters, row.launches
    read, written = counts.unique_read_bytes / launches, counts.unique_written_bytes / launches
    ceilings, flops = datasheet_ceilings(gpu), _flops(row)
    arithmetic = [
        WARP_FLOPS[name] * row.classes.get(name, 0) / launches / ceilings.matmul_flops_per_s[dtype] * 1e6
        for name, dtype in (("fp32", "float32"), ("tensor", "bfloat16"), ("wgmma", "bfloat16"))
    ]
    floor = max(memory_us(ceilings, read, written), *arithmetic)
    return RooflinePlace(
        fraction=floor / spent.us,
        floor_us=floor,
        intensity=flops / (read + written) if read + written else None,
        flops_per_s=flops / spent.us * 1e6,
        binding=binding(row, spent, gpu),
        shown_by=shown_by(row, spent, gpu),
    )


def binding(row: LaunchRow, spent: LaunchCost, gpu: Description) -> Binding:
    """Return the model's binding resource."""
    found = NAMES.get(spent.binding, Binding.ISSUE)
    few = resident(row, gpu) < FEW_WARPS
    return Binding.OCCUPANCY if spent.binding == "latency" and few else found


def shown_by(row: LaunchRow, spent: LaunchCost, gpu: Description) -> tuple[Metric, ...]:
    """Return the metrics that explain the binding."""
    order = sorted(spent.bounds_us, key=spent.bounds_us.__getitem__, reverse=True)
    launch = [Metric(name="a launch", value=spent.start_us, unit="µs")] if spent.binding == "launch" else []
    bounds = [Metric(name=f"{name} bound", value=spent.bounds_us[name], unit="µs") for name in order[:MOST_SHOWN]]
    return (*launch, bounds[0], *_counters(row, spent, gpu), *bounds[1:])[:MOST_SHOWN]


def resident(row: LaunchRow, gpu: Description) -> float:
    """Return the resident share of an SM's warps."""
    # A small grid leaves room unused, so this can be below the occupancy limit.
    blocks = min(max(1, row.blocks_per_sm), ceil(row.blocks / gpu.sm_count))
    return min(1.0, blocks * row.warps_per_block * 32 / gpu.limits.threads_per_sm)


def limiter(row: LaunchRow, gpu: Description) -> str:
    """Return the resource that limits blocks per SM."""
    if row.blocks < gpu.sm_count * max(1, row.blocks_per_sm):
        return "the grid"
    limits, threads = gpu.limits, row.warps_per_block * 32
    shared = row.static_shared + row.dynamic_shared
    blocks = {
        "threads": limits.threads_per_sm // threads,
        "blocks": limits.blocks_per_sm,
        "registers": limits.registers_per_sm // max(1, row.registers * threads),
        "shared memory": limits.shared_per_sm_bytes // max(1, shared),
    }
    return min(blocks, key=blocks.__getitem__)


def _counters(row: LaunchRow, spent: LaunchCost, gpu: Description) -> list[Metric]:
    """Return the counter that explains the binding."""
    counts = row.counters
    match binding(row, spent, gpu):
        case Binding.L1 | Binding.L2 | Binding.DRAM:
            requests = counts.global_load_requests + counts.global_store_requests
            sectors = counts.global_load_sectors + counts.global_store_sectors
            return [Metric(name="sectors a request", value=sectors / requests)] if requests else []
        case Binding.SHARED:
            return [Metric(name="bank conflicts a launch", value=counts.bank_conflicts / row.launches)]
        case Binding.OCCUPANCY:
            return [percent(f"occupancy, limited by {limiter(row, gpu)}", resident(row, gpu))]
        case _:
            return []


def _flops(row: LaunchRow) -> float:
    """Return a launch's operations, each as a multiply-add."""
    return sum(weight * row.classes.get(name, 0) for name, weight in WARP_FLOPS.items()) / row.launches
