// LLaMA's feed-forward layer: three products by tiles in shared memory, the gate between them.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;  // rows of threads in a block; each thread makes kTile / kRows results

// Where element (row, col) of a matrix of that size lies: row * row_step + col * col_step. One step is 1.
struct Layout {
  int64_t rows, cols, row_step, col_step;
};

// Reads a tile as floats, zeros outside; neighbouring threads read neighbouring memory whichever way it lies.
template <typename scalar_t>
__device__ void load(float (*tile)[kTile + 1], const scalar_t* from, Layout at, int64_t row0, int64_t col0) {
  for (int i = threadIdx.y; i < kTile; i += kRows) {
    const int row = at.col_step == 1 ? i : threadIdx.x;
    const int col = at.col_step == 1 ? threadIdx.x : i;
    const bool inside = row0 + row < at.rows && col0 + col < at.cols;
    tile[row][col] = inside ? static_cast<float>(from[(row0 + row) * at.row_step + (col0 + col) * at.col_step]) : 0.0f;
  }
}

// out = a · b; out is dense. One block a tile of out.
template <typename scalar_t>
__global__ void product(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, scalar_t* out) {
  __shared__ float tile_a[kTile][kTile + 1];
  __shared__ float tile_b[kTile][kTile + 1];
  const int64_t across = (at_b.cols + kTile - 1) / kTile;
  const int64_t row0 = blockIdx.x / across * kTile;
  const int64_t col0 = blockIdx.x % across * kTile;
  float sum[kTile / kRows] = {};
  for (int64_t k0 = 0; k0 < at_a.cols; k0 += kTile) {
    load(tile_a, a, at_a, row0, k0);
    load(tile_b, b, at_b, k0, col0);
    __syncthreads();
    for (int k = 0; k < kTile; ++k)
      for (int i = 0; i < kTile / kRows; ++i)
        sum[i] += tile_a[threadIdx.y + i * kRows][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  const int64_t col = col0 + threadIdx.x;
  for (int i = 0; i < kTile / kRows; ++i) {
    const int64_t row = row0 + threadIdx.y + i * kRows;
    if (row >= at_a.rows || col >= at_b.cols) continue;
    out[row * at_b.cols + col] = static_cast<scalar_t>(sum[i]);
  }
}

dim3 tiles(Layout at_a, Layout at_b) {
  return dim3(static_cast<unsigned>(((at_a.rows + kTile - 1) / kTile) * ((at_b.cols + kTile - 1) / kTile)));
}

Layout dense(int64_t rows, int64_t cols) { return {rows, cols, cols, 1}; }
Layout flipped(int64_t rows, int64_t cols) { return {cols, rows, 1, cols}; }  // a dense rows × cols matrix, transposed

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

// up = silu(gate) * up.
template <typename scalar_t>
__global__ void gate_up(const scalar_t* gate, scalar_t* up, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float g = static_cast<float>(gate[i]);
    up[i] = static_cast<scalar_t>(g / (1.0f + expf(-g)) * static_cast<float>(up[i]));
  }
}

template <typename scalar_t>
void multiply(torch::Tensor a, Layout at_a, torch::Tensor b, Layout at_b, torch::Tensor out) {
  product<scalar_t><<<tiles(at_a, at_b), dim3(kTile, kRows), 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<scalar_t>(), at_a, b.data_ptr<scalar_t>(), at_b, out.data_ptr<scalar_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_weight, torch::Tensor up_weight, torch::Tensor down_weight) {
  TORCH_CHECK(x.is_contiguous() && gate_weight.is_contiguous(), "x and gate_weight must be contiguous");
  TORCH_CHECK(up_weight.is_contiguous() && down_weight.is_contiguous(), "weights must be contiguous");
  const int64_t rows = x.size(0), hidden = x.size(1), inner = gate_weight.size(0);
  auto gate = torch::empty({rows, inner}, x.options());
  auto up = torch::empty({rows, inner}, x.options());
  auto out = torch::empty({rows, hidden}, x.options());
  DISPATCH(x, "llama_ffw", [&] {
    multiply<scalar_t>(x, dense(rows, hidden), gate_weight, flipped(inner, hidden), gate);
    multiply<scalar_t>(x, dense(rows, hidden), up_weight, flipped(inner, hidden), up);
    gate_up<scalar_t><<<blocks_for(rows * inner), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(), rows * inner);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    multiply<scalar_t>(up, dense(rows, inner), down_weight, flipped(hidden, inner), out);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
