"""Thread-instructions a second of the virtual GPU's engine on four kernels, with the checkers on and off.

Run: python benchmarks/vgpu.py [--repeat N]. Needs g++ and nvcc, no GPU.
"""

import argparse
import importlib.util
import math
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HARNESS = Path(__file__).parents[1] / "tests/machines/virtual/engine/conftest.py"

SOURCE = r"""
extern "C" __global__ void layernorm(const float* x, const float* g, const float* b, float* y, int n) {
  __shared__ float part[2][32];
  const float* row = x + (size_t)blockIdx.x * n;
  float s = 0, q = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float v = row[i]; s += v; q += v * v; }
  for (int d = 16; d; d >>= 1) { s += __shfl_xor_sync(~0u, s, d); q += __shfl_xor_sync(~0u, q, d); }
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) { part[0][warp] = s; part[1][warp] = q; }
  __syncthreads();
  s = lane < blockDim.x / 32 ? part[0][lane] : 0; q = lane < blockDim.x / 32 ? part[1][lane] : 0;
  for (int d = 16; d; d >>= 1) { s += __shfl_xor_sync(~0u, s, d); q += __shfl_xor_sync(~0u, q, d); }
  float mean = s / n, scale = rsqrtf(q / n - mean * mean + 1e-5f);
  float* to = y + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = (row[i] - mean) * scale * g[i] + b[i];
}
extern "C" __global__ void softmax(const float* x, float* y, int n) {
  __shared__ float part[32];
  const float* row = x + (size_t)blockIdx.x * n;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float m = -1e30f, s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  if (lane == 0) part[warp] = m;
  __syncthreads();
  m = lane < blockDim.x / 32 ? part[lane] : -1e30f;
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf(row[i] - m);
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (lane == 0) part[warp] = s;
  __syncthreads();
  s = lane < blockDim.x / 32 ? part[lane] : 0;
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = __expf(row[i] - m) / s;
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float ta[16][16], tb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < k; t += 16) {
    ta[threadIdx.y][threadIdx.x] = a[row * k + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
extern "C" __global__ void histogram(const unsigned* x, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  int step = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(&local[x[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
"""


@dataclass(frozen=True)
class Measured:
    """One kernel's rate in million thread-instructions a second."""

    name: str
    rate: float


def harness() -> Any:
    """The engine's ctypes face, which the tests own."""
    spec = importlib.util.spec_from_file_location("engine_harness", HARNESS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_kernels() -> str:
    """The four kernels as PTX."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        source.write_text(SOURCE)
        subprocess.run(
            ["nvcc", "-arch=compute_90a", "-O3", "-lineinfo", "-ptx", str(source), "-o", str(target)], check=True
        )
        return target.read_text()


def launches(gpu: Any, module: int, blocks: int) -> dict[str, Callable[[], Any]]:
    """Each kernel on `blocks` blocks of 256 threads."""
    rng = np.random.default_rng(0)
    n = 2048
    x, y = gpu.array(rng.standard_normal((blocks, n)).astype(np.float32)), gpu.empty((blocks, n), np.float32)
    g, b = gpu.array(np.ones(n, np.float32)), gpu.array(np.zeros(n, np.float32))
    side = max(1, math.isqrt(blocks))
    m = side * 16
    a1, a2, a3 = (gpu.array(rng.standard_normal((m, 256)).astype(np.float32)) for _ in range(3))
    b2 = gpu.array(rng.standard_normal((256, m)).astype(np.float32))
    c = gpu.empty((m, m), np.float32)
    data = gpu.array(rng.integers(0, 1 << 30, blocks * n, dtype=np.uint32))
    bins = gpu.array(np.zeros(256, np.uint32))
    del a2, a3
    return {
        "layernorm": lambda: gpu.launch(module, "layernorm", blocks, 256, x, g, b, y, n),
        "softmax": lambda: gpu.launch(module, "softmax", blocks, 256, x, y, n),
        "matmul": lambda: gpu.launch(module, "matmul", (side, side), (16, 16), a1, b2, c, m, 256),
        "histogram": lambda: gpu.launch(module, "histogram", blocks, 256, data, bins, blocks * n),
    }


def measure(library: Any, make: Any, ptx: str, blocks: int, check: bool, repeat: int) -> list[Measured]:
    """The best of several runs of each kernel, in processor time of this process."""
    gpu = make(library, check=check)
    module = gpu.load(ptx)
    results = []
    for name, launch in launches(gpu, module, blocks).items():
        best = 0.0
        for _ in range(repeat):
            started = time.process_time()
            outcome = launch()
            seconds = time.process_time() - started
            assert (outcome.status, outcome.findings) == ("done", []), (name, outcome)
            best = max(best, outcome.counters["thread_instructions"] / seconds / 1e6)
        results.append(Measured(name, best))
    gpu.close()
    return results


def main() -> None:
    """Print the table and the geometric means beside their aims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    tools = harness()
    library = tools.bind(tools.CDLL(str(tools.build_library())))
    ptx = compile_kernels()
    for title, blocks, check, aim in (
        ("64 thousand threads, checkers on", 256, True, 300),
        ("64 thousand threads, checkers off", 256, False, 1000),
        ("one block of 256 threads, checkers on", 1, True, 100),
    ):
        rows = measure(library, tools.VirtualGpu, ptx, blocks, check, repeat if blocks > 1 else repeat * 10)
        mean = math.exp(sum(math.log(row.rate) for row in rows) / len(rows))
        each = "  ".join(f"{row.name} {row.rate:.0f}" for row in rows)
        print(f"{title}: {mean:.0f} million thread-instructions/s (aim {aim})   {each}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB (aim below 2048)")


if __name__ == "__main__":
    main()
