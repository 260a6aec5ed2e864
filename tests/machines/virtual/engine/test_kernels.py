"""Small CUDA kernels from nvcc, run whole."""

from typing import Any

import numpy as np

SAXPY = """
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""

REDUCE = """
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  __shared__ float partial[32];
  float v = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.f;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) *out = v;
  }
}
"""


def test_saxpy(gpu: Any, nvcc: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(1000).astype(np.float32), rng.standard_normal(1000).astype(np.float32)
    bx, by = gpu.array(x), gpu.array(y)
    outcome = gpu.launch(gpu.load(nvcc(SAXPY)), "saxpy", 4, 256, bx, by, np.float32(2.5), 1000)
    assert (outcome.status, outcome.findings) == ("done", [])
    expected = (x.astype(np.float64) * 2.5 + y).astype(np.float32)
    np.testing.assert_array_equal(by.numpy(), expected)


def test_reduce(gpu: Any, nvcc: Any) -> None:
    x = np.arange(5000, dtype=np.float32) % 7
    bx, out = gpu.array(x), gpu.empty(1, np.float32)
    outcome = gpu.launch(gpu.load(nvcc(REDUCE)), "reduce", 1, 256, bx, out, 5000)
    assert (outcome.status, outcome.findings) == ("done", [])
    assert out.numpy()[0] == x.sum()
    assert outcome.counters["global_load_bytes"] == 20000
