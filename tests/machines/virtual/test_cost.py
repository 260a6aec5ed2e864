"""The cost model: more work never costs less, and the resource that binds is the one that was loaded."""

from math import isclose

import pytest

from warpsmith.machines.virtual import Counters, Description, LaunchRow, describe, modelled_cost, total
from warpsmith.machines.virtual.cost import Transfers

H200 = describe("H200")


def row(blocks: int = 4096, launches: int = 1, classes: dict[str, int] | None = None, **counts: int) -> LaunchRow:
    return LaunchRow(
        kernel="k",
        launches=launches,
        grid=(blocks, 1, 1),
        block=(256, 1, 1),
        registers=32,
        blocks_per_sm=8,
        counters=Counters(**counts),
        classes=classes or {},
    )


def streaming(bytes_: int, **more: int) -> LaunchRow:
    sectors = bytes_ // 32
    half = bytes_ // 2
    return row(
        unique_read_bytes=half,
        unique_written_bytes=half,
        global_load_sectors=sectors // 2,
        global_store_sectors=sectors // 2,
        global_load_requests=sectors // 8,
        global_store_requests=sectors // 8,
        **more,
    )


def test_a_stream_of_a_gigabyte_runs_at_the_copy_rate() -> None:
    modelled = modelled_cost(streaming(1 << 30), H200)
    assert modelled.binding == "dram"
    assert isclose(modelled.us - H200.rates.launch_us, (1 << 30) / 4.3e6, rel_tol=0.05)


@pytest.mark.parametrize(
    ("loaded", "binding"),
    [
        (row(shared_wavefronts=10**9), "shared"),
        (
            row(atomics=10**9, global_store_sectors=10**7, global_store_bytes=4 * 10**9, unique_written_bytes=32),
            "atomics",
        ),
        (row(classes={"sfu": 10**9}), "sfu pipe"),
        (row(classes={"tensor": 10**9}), "tensor pipe"),
        (row(classes={"wgmma": 10**9}), "wgmma pipe"),
        (row(classes={"move": 10**9}), "launch"),
        (row(global_store_sectors=10**8, global_store_bytes=4 * 10**8), "stores"),
        (row(warp_instructions=10**10), "issue"),
        (row(blocks=1, longest_thread=10**7), "latency"),
        (row(global_load_sectors=10**9, global_load_requests=10**6), "l2"),
        (row(local_bytes=10**11), "l1"),
        (row(), "launch"),
    ],
)
def test_the_binding_resource_is_named(loaded: LaunchRow, binding: str) -> None:
    assert modelled_cost(loaded, H200).binding == binding


def test_uncoalesced_access_costs_more() -> None:
    wide = streaming(1 << 28)
    scattered = wide.model_copy(
        update={
            "counters": wide.counters.model_copy(update={"global_load_sectors": 8 * wide.counters.global_load_sectors})
        }
    )
    assert modelled_cost(scattered, H200).us > modelled_cost(wide, H200).us


def test_one_block_more_than_a_wave_costs_a_wave() -> None:
    slots = H200.sm_count * 8
    full = modelled_cost(row(blocks=slots, warp_instructions=10**9), H200).us
    over = modelled_cost(row(blocks=slots + 1, warp_instructions=10**9), H200).us
    assert 1.5 < over / full < 2.1


def test_a_last_wave_has_the_memory_to_itself() -> None:
    slots = H200.sm_count * 8
    full, over = (
        modelled_cost(streaming(1 << 28).model_copy(update={"grid": (n, 1, 1)}), H200) for n in (slots, slots + 1)
    )
    assert full.bounds_us["dram"] == over.bounds_us["dram"] and full.bounds_us["l1"] < over.bounds_us["l1"]


def test_stores_that_fill_their_sectors_cost_less_than_those_that_do_not() -> None:
    full, parts = (row(global_store_sectors=10**8, global_store_bytes=n * 10**8) for n in (32, 4))
    assert 2 * modelled_cost(full, H200).us < modelled_cost(parts, H200).us


def test_a_division_takes_the_slots_of_what_it_becomes_and_a_move_none() -> None:
    plain = row(warp_instructions=2 * 10**8, classes={"fp32": 10**8, "move": 10**8})
    divided = row(warp_instructions=2 * 10**8, classes={"fp32": 13 * 10**8, "move": 10**8})
    alone = row(warp_instructions=10**8, classes={"fp32": 10**8})
    assert modelled_cost(plain, H200).bounds_us["issue"] == modelled_cost(alone, H200).bounds_us["issue"]
    assert isclose(modelled_cost(divided, H200).bounds_us["issue"], 13 * modelled_cost(plain, H200).bounds_us["issue"])


def test_few_blocks_leave_sms_idle() -> None:
    few = modelled_cost(row(blocks=4, warp_instructions=10**8), H200).us
    many = modelled_cost(row(blocks=4096, warp_instructions=10**8), H200).us
    assert few > 10 * many


def test_a_call_is_the_sum_of_its_launches_and_a_graph_starts_them_cheaper() -> None:
    alone = row(launches=10)
    assert isclose(total([alone], H200).us, 10 * H200.rates.launch_us)
    assert total([alone.model_copy(update={"in_graph": True})], H200).us < total([alone], H200).us


def test_a_graph_of_one_node_is_no_cheaper_than_a_launch() -> None:
    once = row()
    assert total([once.model_copy(update={"in_graph": True})], H200).us >= total([once], H200).us


def test_copies_and_memsets_are_not_free() -> None:
    once = row()
    with_copies = total([once], H200, Transfers(count=3, bytes=43_000_000))
    assert isclose(with_copies.us - total([once], H200).us, 3 * H200.rates.launch_us + 20.0)
    assert with_copies.binding == "transfers"


def test_the_h100_moves_bytes_slower_than_the_h200() -> None:
    h100: Description = describe("h100")
    assert modelled_cost(streaming(1 << 30), h100).us > modelled_cost(streaming(1 << 30), H200).us
