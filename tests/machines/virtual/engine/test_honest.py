"""Correct kernels that use what is hard: every one gives the right answer and no finding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = (Path(__file__).parent / "honest.cu").read_text()


@pytest.fixture
def run(gpu: Any, nvcc: Any) -> Any:
    """Launch one of the kernels above; it must end well."""
    module = gpu.load(nvcc(SOURCE))

    def launch(entry: str, grid: Any, block: Any, *arguments: Any, **options: Any) -> Any:
        outcome = gpu.launch(module, entry, grid, block, *arguments, **options)
        assert (outcome.status, outcome.detail, outcome.findings) == ("done", "", [])
        return outcome

    return launch


def collatz(v: int) -> int:
    n = 0
    while v != 1:
        v = 3 * v + 1 if v % 2 else v // 2
        n += 1
        if n > 200:
            break
    return [n + 10, n * 3, n - 4, n ^ 5, -n, n << 1, n << 1][n % 7]


def test_divergence(gpu: Any, run: Any) -> None:
    x, y = np.arange(1, 65, dtype=np.int32), gpu.empty(64, np.int32)
    outcome = run("diverge", 1, 64, gpu.array(x), y)
    assert y.numpy().tolist() == [collatz(int(v)) for v in x]
    assert outcome.counters["divergent_branches"] > 0


def test_calls(gpu: Any, run: Any) -> None:
    x, y = np.arange(64, dtype=np.float32), gpu.empty(64, np.float32)
    run("calls", 1, 64, gpu.array(x), y)
    assert y.numpy().tolist() == [6 * v if i % 3 else 6 * (v + 1) + 1 for i, v in enumerate(x)]
    run("indirect", 1, 64, gpu.array(x), y)
    assert y.numpy().tolist() == [v - 1 if i % 2 else v + 1 for i, v in enumerate(x)]


def test_warp_operations(gpu: Any, run: Any) -> None:
    y = gpu.empty(320, np.int32)
    run("shuffles", 1, 32, y)
    rows = y.numpy().view(np.uint32).reshape(10, 32).tolist()
    lanes = range(32)
    assert rows[0] == [50] * 32
    assert rows[1] == [lane - 3 if lane >= 3 else lane for lane in lanes]
    assert rows[2] == [lane + 4 if lane % 8 < 4 else lane for lane in lanes]
    assert rows[3] == [lane ^ 9 for lane in lanes]
    assert rows[4] == [sum(1 << lane for lane in lanes if lane % 3 == 0)] * 32
    assert rows[5] == [496] * 32
    assert rows[6] == [sum(1 << k for k in lanes if k // 5 == lane // 5) for lane in lanes]
    assert rows[7] == [1] * 32
    assert rows[8] == [9 if lane & 1 else 0x55555555 for lane in lanes]
    assert rows[9] == [31] * 32


def test_last_block_reduces(gpu: Any, run: Any) -> None:
    x = (np.arange(10000) % 13).astype(np.float32)
    partial, out, counter = gpu.empty(40, np.float32), gpu.empty(1, np.float32), gpu.array(np.zeros(1, np.uint32))
    for _ in range(2):
        run("lastblock", 40, 256, gpu.array(x), partial, out, counter, 10000)
        assert out.numpy()[0] == x.sum()


def test_decoupled_lookback(gpu: Any, run: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 256 * 30).astype(np.int32)
    y, flag, prefix = gpu.empty(x.size, np.int32), gpu.array(np.zeros(30, np.int32)), gpu.empty(30, np.int32)
    run("lookback", 30, 256, gpu.array(x), y, flag, prefix)
    np.testing.assert_array_equal(y.numpy(), np.cumsum(x))


def test_grid_synchronisation(gpu: Any, run: Any) -> None:
    a = np.arange(3000, dtype=np.float32)
    da, db = gpu.array(a), gpu.empty(3000, np.float32)
    run("gridsync", 20, 64, da, db, 3000, cooperative=True)
    for _ in range(4):
        a = np.roll(np.roll(a, -1) + 1, -7)
    np.testing.assert_array_equal(da.numpy(), a)


def test_spin_lock(gpu: Any, run: Any) -> None:
    value = gpu.array(np.zeros(1, np.int32))
    run("spinlock", 5, 64, gpu.array(np.zeros(1, np.int32)), value)
    assert value.numpy()[0] == 320


def test_named_barriers(gpu: Any, run: Any) -> None:
    x, y = np.arange(128, dtype=np.int32), gpu.empty(128, np.int32)
    run("named", 1, 64, gpu.array(x), y)
    np.testing.assert_array_equal(y.numpy().reshape(4, 32), x.reshape(4, 32)[:, ::-1] * 2)


def test_early_exit(gpu: Any, run: Any) -> None:
    x, y = np.arange(96, dtype=np.int32) % 8, gpu.array(np.zeros(96, np.int32))
    run("earlyexit", 1, 96, gpu.array(x), y, 70)
    np.testing.assert_array_equal(y.numpy()[:70], x[:70] + int((x[:70] > 3).sum()))


def test_double_buffered_copies(gpu: Any, run: Any) -> None:
    x, y = np.arange(256 * 6, dtype=np.float32), gpu.empty(256 * 6, np.float32)
    run("async", 1, 64, gpu.array(x), y, 6)
    np.testing.assert_array_equal(y.numpy().reshape(6, 256), x.reshape(6, 256)[:, ::-1])


def test_tensor_cores(gpu: Any, run: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (16, 16)).astype(np.float16), rng.integers(-4, 5, (16, 8)).astype(np.float16)
    c = gpu.empty((16, 8), np.float32)
    run("tensor", 1, 32, gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float32) @ b.astype(np.float32))


def test_tf32_rounds_its_inputs(gpu: Any, run: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((16, 8)).astype(np.float32), np.eye(8, dtype=np.float32)
    c = gpu.empty((16, 8), np.float32)
    run("tf32", 1, 32, gpu.array(a), gpu.array(b), c)
    rounded = ((a.view(np.uint32) + 0x1000) & ~np.uint32(0x1FFF)).view(np.float32)
    np.testing.assert_array_equal(c.numpy(), rounded)


def test_fragments(gpu: Any, run: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = gpu.empty((16, 16), np.float32)
    run("fragments", 1, 32, gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), 2 * (a.astype(np.float32) @ b.T.astype(np.float32) + 0.5))


def test_printf(gpu: Any, run: Any) -> None:
    run("print", 2, 32, 42)
    assert gpu.printed() == "n=42 x=1.50 s=hello 1234567890123%\n" * 2


def test_exchange_inside_a_warp(gpu: Any, run: Any) -> None:
    y = gpu.empty(64, np.int32)
    run("warpexchange", 1, 64, y)
    assert y.numpy().tolist() == [2 * (31 - (lane + 1) % 32) for lane in range(32)] * 2


def test_histogram(gpu: Any, run: Any) -> None:
    x = np.random.default_rng(4).integers(0, 256, 5000).astype(np.uint8)
    bins = gpu.array(np.zeros(256, np.uint32))
    outcome = run("histogram", 3, 256, gpu.array(x), bins, 5000)
    np.testing.assert_array_equal(bins.numpy(), np.bincount(x, minlength=256))
    assert outcome.counters["atomics"] == 5000 + 3 * 256


def test_everyone_stores_the_same(gpu: Any, run: Any) -> None:
    found = gpu.array(np.zeros(1, np.int32))
    run("sameflag", 4, 32, gpu.array(np.full(128, 7, np.int32)), found)
    assert found.numpy()[0] == 1


def test_mbarrier(gpu: Any, run: Any) -> None:
    x, y = np.arange(64, dtype=np.int32), gpu.empty((3, 64), np.int32)
    run("barrierpipe", 1, 64, gpu.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x[::-1] + np.arange(3)[:, None])


def test_split_k_semaphore(gpu: Any, run: Any) -> None:
    x = np.arange(64 * 6, dtype=np.float32).reshape(6, 64)
    c = gpu.array(np.zeros(64, np.float32))
    run("semaphore", 6, 64, gpu.array(np.zeros(1, np.int32)), c, gpu.array(x))
    np.testing.assert_array_equal(c.numpy(), x.sum(0))


def test_a_reader_tells_the_writer(gpu: Any, run: Any) -> None:
    x, y = gpu.array(np.array([7], np.int32)), gpu.array(np.zeros(1, np.int32))
    run("read_then_told", 1, 64, x, gpu.array(np.zeros(1, np.int32)), y)
    assert (x.numpy()[0], y.numpy()[0]) == (8, 7)
