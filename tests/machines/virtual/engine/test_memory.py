"""Transfers, freed memory, orders between operations, counters and limits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = (Path(__file__).parent / "memory.cu").read_text()


@pytest.fixture
def module(gpu: Any, nvcc: Any) -> int:
    return int(gpu.load(nvcc(SOURCE)))


def test_unwritten_bytes_copied_to_the_host(gpu: Any) -> None:
    buffer = gpu.empty(16, np.float32)
    buffer.numpy()
    assert [f["checker"] for f in gpu.transfers] == ["uninitialized"]
    assert "64 bytes that nobody has written" in gpu.transfers[0]["message"]


def test_copies_carry_what_was_not_written(gpu: Any) -> None:
    source, target = gpu.empty(16, np.float32), gpu.empty(16, np.float32)
    gpu.library.engine_fill(gpu.handle, gpu.operation(), source.address, 0x3F800000, 4, 8)
    assert json.loads(gpu.library.engine_copy(gpu.handle, gpu.operation(), target.address, source.address, 64)) == []
    assert target.numpy()[:8].tolist() == [1] * 8
    assert "takes 32 bytes that nobody has written" in gpu.transfers[0]["message"]


def test_fill_widths(gpu: Any) -> None:
    for width, value, want in ((1, 0x1AB, 0xABABABAB), (2, 0x1BEEF, 0xBEEFBEEF), (4, 0x12345678, 0x12345678)):
        buffer = gpu.empty(4, np.uint32)
        gpu.library.engine_fill(gpu.handle, gpu.operation(), buffer.address, value, width, 16 // width)
        assert buffer.numpy().tolist() == [want] * 4


def test_transfer_beyond_the_end(gpu: Any) -> None:
    buffer = gpu.array(np.zeros(4, np.float32))
    findings = json.loads(gpu.library.engine_fill(gpu.handle, gpu.operation(), buffer.address, 0, 1, 17))
    assert [f["checker"] for f in findings] == ["out_of_bounds"]


def test_freed_memory(gpu: Any, module: int) -> None:
    x, y = gpu.array(np.zeros(32, np.float32)), gpu.empty(32, np.float32)
    assert gpu.library.engine_release(gpu.handle, x.address) == 1
    assert gpu.library.engine_release(gpu.handle, x.address) == 0
    outcome = gpu.launch(module, "copy", 1, 32, x, y, 1)
    assert (outcome.status, outcome.checkers) == ("faulted", ["out_of_bounds"])
    assert "freed" in outcome.findings[0]["message"]


def test_room_is_found_again(make_gpu: Any) -> None:
    """More than the address range in all: freed neighbours join, and what is live keeps its bytes."""
    gpu = make_gpu(check=False)
    kept = gpu.array(np.arange(16, dtype=np.uint32))
    allocate, release = gpu.library.engine_allocate, gpu.library.engine_release
    for size in (1 << 28, 3 << 30, 1 << 29, 1 << 31) * 20:
        address = allocate(gpu.handle, size, b"")
        assert address
        assert release(gpu.handle, address) == 1
    assert allocate(gpu.handle, 5 << 30, b"") == 0
    np.testing.assert_array_equal(kept.numpy(), np.arange(16))
    gpu.close()


def test_two_operations_without_order(gpu: Any, module: int) -> None:
    """A kernel writes y; a later kernel on another stream reads it and nobody waited."""
    x, y, z = gpu.array(np.ones(32, np.float32)), gpu.empty(32, np.float32), gpu.empty(32, np.float32)
    gpu.launch(module, "copy", 1, 32, x, y, 1)
    first = gpu.operations
    gpu.library.engine_unordered(gpu.handle, first, first + 1)
    outcome = gpu.launch(module, "copy", 1, 32, y, z, 1)
    assert outcome.checkers == ["race"]
    assert f"operation {first}" in outcome.findings[0]["message"]
    assert gpu.launch(module, "copy", 1, 32, y, z, 1).findings == []


def test_host_reads_before_the_kernel_is_waited_for(gpu: Any, module: int) -> None:
    x, y = gpu.array(np.ones(32, np.float32)), gpu.empty(32, np.float32)
    gpu.launch(module, "copy", 1, 32, x, y, 1)
    gpu.library.engine_unordered(gpu.handle, gpu.operations, gpu.operations + 1)
    y.numpy()
    assert [f["checker"] for f in gpu.transfers] == ["race"]


def test_sectors(gpu: Any, module: int) -> None:
    x, y = gpu.array(np.zeros(4096, np.float32)), gpu.empty(64, np.float32)
    dense = gpu.launch(module, "copy", 2, 32, x, y, 1).counters
    assert (dense["global_load_sectors"], dense["global_load_requests"], dense["global_load_bytes"]) == (8, 2, 256)
    assert (dense["unique_read_bytes"], dense["unique_written_bytes"]) == (256, 256)
    sparse = gpu.launch(module, "copy", 2, 32, x, y, 16).counters
    assert (sparse["global_load_sectors"], sparse["unique_read_bytes"]) == (64, 64 * 32)
    same = gpu.launch(module, "copy", 2, 32, x, y, 0).counters
    assert (same["global_load_sectors"], same["unique_read_bytes"]) == (2, 32)


@pytest.mark.parametrize(("stride", "conflicts"), [(0, 0), (1, 0), (2, 1), (4, 3), (8, 7), (31, 0)])
def test_bank_conflicts(gpu: Any, module: int, stride: int, conflicts: int) -> None:
    outcome = gpu.launch(module, "banks", 1, 32, gpu.empty(32, np.float32), stride)
    assert (outcome.findings, outcome.counters["bank_conflicts"]) == ([], conflicts)


def test_neighbouring_bytes_do_not_race(gpu: Any, module: int) -> None:
    x = np.arange(64, dtype=np.uint8)
    y, z = gpu.empty(64, np.uint8), gpu.empty(64, np.uint16)
    outcome = gpu.launch(module, "bytes", 1, 64, gpu.array(x), y, z)
    assert outcome.findings == []
    np.testing.assert_array_equal(y.numpy(), x + 1)
    np.testing.assert_array_equal(z.numpy(), x.astype(np.uint16) * 2)


@pytest.mark.parametrize(
    ("grid", "block", "shared", "words"),
    [
        (0, 32, 0, "0 blocks"),
        (1, 0, 0, "0 threads"),
        (1, 1025, 0, "1025"),
        (1, (1, 1, 65), 0, "65"),
        (1, (32, 33, 1), 0, "1056"),
        ((1, 65536, 1), 1, 0, "65536"),
        (1, 32, 49153, "49153"),
        (1, 256, 0, "__launch_bounds__"),
    ],
)
def test_launch_limits(gpu: Any, module: int, grid: Any, block: Any, shared: int, words: str) -> None:
    outcome = gpu.launch(module, "bounded", grid, block, gpu.empty(32, np.float32), shared=shared)
    assert (outcome.status, outcome.checkers) == ("bad_launch", ["launch"])
    assert words in outcome.detail


def test_no_such_entry(gpu: Any, module: int) -> None:
    assert gpu.launch(module, "absent", 1, 32).status == "bad_launch"
    assert gpu.launch(module, "bounded", 1, 32).status == "bad_launch"


def test_cooperative_grid_too_large(gpu: Any, module: int) -> None:
    outcome = gpu.launch(module, "bounded", 132 * 16 + 1, 128, gpu.empty(32, np.float32), cooperative=True)
    assert (outcome.status, "cooperative" in outcome.detail) == ("bad_launch", True)


def test_atomics(gpu: Any, module: int) -> None:
    i = gpu.array(np.array([0, 0, 0, -1, 0, 0], np.int32))
    u = gpu.array(np.array([0, 4, 0, 0], np.uint32))
    total, f, d = (
        gpu.array(np.zeros(1, np.uint64)),
        gpu.array(np.zeros(1, np.float32)),
        gpu.array(np.zeros(1, np.float64)),
    )
    outcome = gpu.launch(module, "atomics", 1, 32, i, u, total, f, d)
    assert outcome.findings == []
    assert i.numpy().tolist() == [-64, -9, 31, 0, -1, 0]
    assert u.numpy().tolist() == [2, 2, 77, 32]
    assert (total.numpy()[0], f.numpy()[0], d.numpy()[0]) == (32 << 40, 16, 8)


def test_printf_has_a_limit(make_gpu: Any, nvcc: Any) -> None:
    gpu = make_gpu(print_limit=1000)
    assert gpu.launch(gpu.load(nvcc(SOURCE)), "chatter", 4, 64).status == "done"
    text = gpu.printed()
    assert text.startswith("line 0 of thread 0\n")
    assert (1000 < len(text) < 1100, text.endswith("is not kept]\n")) == (True, True)
    gpu.close()


def test_checkers_off(make_gpu: Any, nvcc: Any) -> None:
    """Without checkers an uninitialised read goes by, a fault still stops the kernel."""
    gpu = make_gpu(check=False)
    module = gpu.load(nvcc(SOURCE))
    x, y = gpu.empty(32, np.float32), gpu.empty(32, np.float32)
    assert gpu.launch(module, "copy", 1, 32, x, y, 1).findings == []
    assert gpu.launch(module, "copy", 1, 32, x, y, 2).status == "faulted"
    gpu.close()
