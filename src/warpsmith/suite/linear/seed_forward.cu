// A linear layer: a product by tiles in shared memory, bias added at the end.
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

// out = a · b + bias for every row; out is dense. One block a tile of out.
template <typename scalar_t>
__global__ void product(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, const scalar_t* bias,
                        scalar_t* out) {
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
    out[row * at_b.cols + col] = static_cast<scalar_t>(sum[i] + static_cast<float>(bias[col]));
  }
}

dim3 tiles(Layout at_a, Layout at_b) {
  return dim3(static_cast<unsigned>(((at_a.rows + kTile - 1) / kTile) * ((at_b.cols + kTile - 1) / kTile)));
}

Layout dense(int64_t rows, int64_t cols) { return {rows, cols, cols, 1}; }
Layout flipped(int64_t rows, int64_t cols) { return {cols, rows, 1, cols}; }  // a dense rows × cols matrix, transposed

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const int64_t inner = x.size(-1), cols = weight.size(0), rows = x.numel() / inner;
  auto out = torch::empty({rows, cols}, x.options());
  const Layout at_x = dense(rows, inner), at_weight = flipped(cols, inner);
  DISPATCH(x, "linear", [&] {
    product<scalar_t><<<tiles(at_x, at_weight), dim3(kTile, kRows), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), at_x, weight.data_ptr<scalar_t>(), at_weight, bias.data_ptr<scalar_t>(),
        out.data_ptr<scalar_t>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
