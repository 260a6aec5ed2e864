// Gradients of a linear layer on tokens: two products by tiles in shared memory and a sum down the columns.
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

// Sums down the columns: 32 columns a block, kRows threads share a column.
template <typename scalar_t>
__global__ void column_sum(const scalar_t* from, scalar_t* out, int64_t rows, int64_t cols) {
  __shared__ float partial[kRows][kTile + 1];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  float sum = 0.0f;
  if (col < cols)
    for (int64_t row = threadIdx.y; row < rows; row += kRows) sum += static_cast<float>(from[row * cols + col]);
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int i = 1; i < kRows; ++i) sum += partial[i][threadIdx.x];
  out[col] = static_cast<scalar_t>(sum);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight,
                                    torch::Tensor bias) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  const int64_t inner = x.size(-1), cols = weight.size(0), rows = x.numel() / inner;
  auto grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(bias);
  const Layout at_grad = dense(rows, cols), at_turned = flipped(rows, cols);
  const Layout at_weight = dense(cols, inner), at_x = dense(rows, inner);
  const dim3 block(kTile, kRows);
  const auto stream = at::cuda::getCurrentCUDAStream();
  DISPATCH(x, "unet_linear_backward", [&] {
    const auto *grad = grad_out.data_ptr<scalar_t>(), *from = x.data_ptr<scalar_t>();
    product<scalar_t><<<tiles(at_grad, at_weight), block, 0, stream>>>(
        grad, at_grad, weight.data_ptr<scalar_t>(), at_weight, grad_x.data_ptr<scalar_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    product<scalar_t><<<tiles(at_turned, at_x), block, 0, stream>>>(grad, at_turned, from, at_x,
                                                                    grad_weight.data_ptr<scalar_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    column_sum<scalar_t><<<static_cast<unsigned>((cols + kTile - 1) / kTile), block, 0, stream>>>(
        grad, grad_bias.data_ptr<scalar_t>(), rows, cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
