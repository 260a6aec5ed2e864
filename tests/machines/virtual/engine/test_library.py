"""What NVIDIA's own headers make of a kernel runs, gives the right answer and no finding."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = (Path(__file__).parent / "library.cu").read_text()
RNG = np.random.default_rng(0)
X = RNG.standard_normal(1024).astype(np.float32)


@pytest.fixture
def run(gpu: Any, nvcc: Any) -> Any:
    """Launch one of the kernels; it must end well."""
    module = gpu.load(nvcc(SOURCE))

    def launch(entry: str, grid: int, block: int, *arguments: Any) -> None:
        outcome = gpu.launch(module, entry, grid, block, *arguments)
        assert (outcome.status, outcome.detail, outcome.findings) == ("done", "", [])

    return launch


def test_block_reduce(gpu: Any, run: Any) -> None:
    y = gpu.empty(2, np.float32)
    run("cub_reduce", 1, 256, gpu.array(X), y)
    assert y.numpy()[0] == pytest.approx(X[:256].astype(np.float64).sum(), abs=1e-4)
    assert y.numpy()[1] == X[:256].max()


def test_block_scan(gpu: Any, run: Any) -> None:
    x, y = RNG.integers(0, 9, 256).astype(np.int32), gpu.empty(256, np.int32)
    run("cub_scan", 1, 256, gpu.array(x), y)
    np.testing.assert_array_equal(y.numpy(), np.cumsum(x) - x)


def test_block_sort(gpu: Any, run: Any) -> None:
    x, y = RNG.integers(0, 2**32, 512, dtype=np.uint64).astype(np.uint32), gpu.empty(512, np.uint32)
    run("cub_sort", 1, 128, gpu.array(x), y)
    np.testing.assert_array_equal(y.numpy(), np.sort(x))


def test_block_load_and_store(gpu: Any, run: Any) -> None:
    y = gpu.empty(512, np.float32)
    run("cub_load", 1, 128, gpu.array(X), y)
    np.testing.assert_array_equal(y.numpy(), X[:512] * 2)


def test_tiles(gpu: Any, run: Any) -> None:
    y = gpu.array(np.zeros(600, np.float32))
    run("cg_reduce", 1, 256, gpu.array(X), y)
    result = y.numpy()
    np.testing.assert_allclose(result[:16], X[:256].reshape(16, 16).sum(1), atol=1e-5)
    np.testing.assert_array_equal(result[16:272].reshape(16, 16), np.cumsum((np.arange(256) % 3).reshape(16, 16), 1))


@pytest.mark.parametrize(
    ("entry", "tiles", "block"), [("cg_copy", 1, 256), ("pipeline2", 4, 256), ("threadpipe", 4, 64)]
)
def test_asynchronous_copies(gpu: Any, run: Any, entry: str, tiles: int, block: int) -> None:
    """Each tile comes back with its elements, or its vectors of four, in reverse."""
    width = 4 if entry == "threadpipe" else 1
    x = X[: tiles * block * width].reshape(tiles, block, width)
    y = gpu.empty(x.shape, np.float32)
    run(entry, 1, block, gpu.array(X), y)
    np.testing.assert_array_equal(y.numpy(), x[:, ::-1])


def test_barrier_object(gpu: Any, run: Any) -> None:
    y = gpu.empty(256, np.float32)
    run("bars", 1, 256, gpu.array(X), y)
    np.testing.assert_array_equal(y.numpy(), X[:256][::-1] + 1)


def test_release_and_acquire(gpu: Any, run: Any) -> None:
    y = gpu.empty((4, 256), np.float32)
    run("atom", 4, 256, y, gpu.array(np.zeros(1, np.uint32)), gpu.array(X))
    np.testing.assert_array_equal(y.numpy(), np.stack([X[:256] * 2] + [X[:256][::-1] * 2] * 3))


def test_narrow_reals(gpu: Any, run: Any) -> None:
    h, y = RNG.standard_normal(128).astype(np.float16), gpu.empty(128, np.float16)
    b = gpu.array((RNG.standard_normal(64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
    run("halves", 1, 64, gpu.array(h), y, b, gpu.empty(64, np.uint16), gpu.empty(64, np.uint8))
    f = h.astype(np.float32)
    np.testing.assert_allclose(y.numpy(), f * f + np.maximum(f, np.exp(f)), rtol=3e-3)


def test_double_functions(gpu: Any, run: Any) -> None:
    x, y = RNG.standard_normal(64), gpu.empty(64, np.float64)
    run("doubles", 1, 64, gpu.array(x), y)

    def expected(v: float) -> float:
        a = abs(v)
        return float(
            math.exp(v)
            + math.sin(v) * math.log(a + 1)
            + a**1.5
            + math.erf(v)
            + math.gamma(a + 1)
            + (a + 1) ** -0.5
            + math.copysign(a ** (1 / 3), v)
        )

    np.testing.assert_allclose(y.numpy(), [expected(v) for v in x], rtol=1e-13)


def test_single_functions(gpu: Any, run: Any) -> None:
    """Angles of a million go the slow way of argument reduction, through local memory."""
    x, y = X[:64], gpu.empty(64, np.float32)
    run("floats", 1, 64, gpu.array(x), y)

    def expected(v: float) -> float:
        a = abs(v)
        angle = float(np.float32(v) * np.float32(1000000))
        parts = [
            math.exp(v),
            math.sin(angle),
            math.log(a + 1),
            a**1.5,
            math.erf(v),
            math.tanh(v),
            math.atan2(v, 2),
            math.fmod(v, float(np.float32(0.3))),
            round(v),
            v / 3,
            0.4769362762044699,
            math.lgamma(a + 1),
            0.5 * math.erfc(-v / math.sqrt(2)),
            math.cos(math.pi * v),
            10**v,
            math.log1p(a),
            math.expm1(v),
            math.hypot(v, 3),
            math.copysign(math.floor(a + 0.5), v),
            v * 8,
        ]
        return float(sum(parts))

    np.testing.assert_allclose(y.numpy(), [expected(float(v)) for v in x], rtol=2e-5, atol=2e-5)
