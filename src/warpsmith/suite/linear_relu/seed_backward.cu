// Gradients of a linear layer with ReLU: the gate first, then two products by tiles and a sum down the columns.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;  // rows of threads in a block; each thread makes kTile / kRows results

// Where element (row, col) of a matrix of that size lies: row * row_step + col * col_step. One step is 1.
struct Layout {
  int64_t rows, cols, row_step, col_step;
};

// Reads a tile as floats, zeros outside; neighbouring threads read neighbouring memory whichever way it lies.
__device__ void load(float (*tile)[kTile + 1], const float* from, Layout at, int64_t row0, int64_t col0) {
  for (int i = threadIdx.y; i < kTile; i += kRows) {
    const int row = at.col_step == 1 ? i : threadIdx.x;
    const int col = at.col_step == 1 ? threadIdx.x : i;
    const bool inside = row0 + row < at.rows && col0 + col < at.cols;
    tile[row][col] = inside ? from[(row0 + row) * at.row_step + (col0 + col) * at.col_step] : 0.0f;
  }
}

// out = a · b; out is dense. One block a tile of out.
__global__ void product(const float* a, Layout at_a, const float* b, Layout at_b, float* out) {
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
    out[row * at_b.cols + col] = sum[i];
  }
}

dim3 tiles(Layout at_a, Layout at_b) {
  return dim3(static_cast<unsigned>(((at_a.rows + kTile - 1) / kTile) * ((at_b.cols + kTile - 1) / kTile)));
}

Layout dense(int64_t rows, int64_t cols) { return {rows, cols, cols, 1}; }
Layout flipped(int64_t rows, int64_t cols) { return {cols, rows, 1, cols}; }  // a dense rows × cols matrix, transposed

// Sums down the columns: 32 columns a block, kRows threads share a column.
__global__ void column_sum(const float* from, float* out, int64_t rows, int64_t cols) {
  __shared__ float partial[kRows][kTile + 1];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  float sum = 0.0f;
  if (col < cols)
    for (int64_t row = threadIdx.y; row < rows; row += kRows) sum += from[row * cols + col];
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int i = 1; i < kRows; ++i) sum += partial[i][threadIdx.x];
  out[col] = sum;
}

// The gradient where the output was positive.
__global__ void gate(const float* grad_out, const float* out, float* gated, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    gated[i] = out[i] > 0.0f ? grad_out[i] : 0.0f;
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous(), "grad_out and x must be contiguous");
  TORCH_CHECK(weight.is_contiguous() && out.is_contiguous(), "weight and out must be contiguous");
  const int64_t rows = x.size(0), inner = x.size(1), cols = weight.size(0), count = rows * cols;
  auto gated = torch::empty_like(grad_out);
  auto grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(bias);
  const Layout at_grad = dense(rows, cols), at_turned = flipped(rows, cols);
  const Layout at_weight = dense(cols, inner), at_x = dense(rows, inner);
  const dim3 block(kTile, kRows);
  const auto stream = at::cuda::getCurrentCUDAStream();
  gate<<<static_cast<unsigned>(std::min<int64_t>((count + 255) / 256, 1 << 20)), 256, 0, stream>>>(
      grad_out.data_ptr<float>(), out.data_ptr<float>(), gated.data_ptr<float>(), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  product<<<tiles(at_grad, at_weight), block, 0, stream>>>(gated.data_ptr<float>(), at_grad, weight.data_ptr<float>(),
                                                           at_weight, grad_x.data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  product<<<tiles(at_turned, at_x), block, 0, stream>>>(gated.data_ptr<float>(), at_turned, x.data_ptr<float>(), at_x,
                                                        grad_weight.data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  column_sum<<<static_cast<unsigned>((cols + kTile - 1) / kTile), block, 0, stream>>>(
      gated.data_ptr<float>(), grad_bias.data_ptr<float>(), rows, cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
