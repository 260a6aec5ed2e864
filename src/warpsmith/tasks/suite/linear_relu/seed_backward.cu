// Gradients of a linear layer with ReLU: the gate first, then two products by tiles and a sum down the columns.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a product is made. 0: tiles of 32 by 32, four results a thread. 1: tiles of TILE by TILE, a square of results in
// each thread's registers.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// Rows and columns of a tile of results, and steps of the sum that are in shared memory at once.
// tune: TILE = 64 [32, 64, 128]
#ifndef TILE
#define TILE 64
#endif
// tune: DEPTH = 16 [8, 16, 32]
#ifndef DEPTH
#define DEPTH 16
#endif

namespace {

constexpr int kTile = STRATEGY == 0 ? 32 : TILE;
constexpr int kDepth = STRATEGY == 0 ? 32 : DEPTH;
constexpr int kRows = 8;  // warps of a block

// Where element (row, col) of a matrix of that size lies: row * row_step + col * col_step. One step is 1.
struct Layout {
  int64_t rows, cols, row_step, col_step;
};

Layout dense(int64_t rows, int64_t cols) { return {rows, cols, cols, 1}; }
Layout flipped(int64_t rows, int64_t cols) { return {cols, rows, 1, cols}; }  // a dense rows × cols matrix, transposed

// Where the results go; they are dense.
template <typename scalar_t>
struct Result {
  scalar_t* out;
  int64_t rows, cols;
  __device__ void put(int64_t row, int64_t col, float sum) const {
    if (row < rows && col < cols) out[row * cols + col] = static_cast<scalar_t>(sum);
  }
};

// Reads kTile rows of kDepth columns as tile[col][row], zeros outside; neighbouring threads read neighbouring memory
// whichever way it lies.
template <typename kept_t, int Pitch, typename scalar_t>
__device__ void load(kept_t (&tile)[kDepth][Pitch], const scalar_t* from, Layout at, int64_t row0, int64_t col0) {
  constexpr int threads = 32 * kRows;
  const bool along = at.col_step == 1;
  const int own = threadIdx.y * 32 + threadIdx.x;
  const int down = along ? threads / kDepth : 0, right = along ? 0 : threads / kTile;  // from one element to the next
  int row = along ? own / kDepth : own % kTile, col = along ? own % kDepth : own / kTile;
  const scalar_t* place = from + (row0 + row) * at.row_step + (col0 + col) * at.col_step;
  const int64_t step = down * at.row_step + right * at.col_step;
  const int64_t rows = at.rows - row0, cols = at.cols - col0;
#pragma unroll 4
  for (int i = 0; i < kTile * kDepth / threads; ++i, row += down, col += right, place += step)
    tile[col][row] = row < rows && col < cols ? static_cast<kept_t>(*place) : static_cast<kept_t>(0.0f);
}

__device__ Layout turned(Layout at) { return {at.cols, at.rows, at.col_step, at.row_step}; }

// a · b, one block a tile of it, a column of four results a thread.
template <typename scalar_t>
__global__ void product(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, Result<scalar_t> result) {
  __shared__ float tile_a[kDepth][kTile + 1];
  __shared__ float tile_b[kDepth][kTile + 1];
  const int64_t across = (at_b.cols + kTile - 1) / kTile;
  const int64_t row0 = blockIdx.x / across * kTile, col0 = blockIdx.x % across * kTile;
  float sum[kTile / kRows] = {};
  for (int64_t k0 = 0; k0 < at_a.cols; k0 += kDepth) {
    load(tile_a, a, at_a, row0, k0);
    load(tile_b, b, turned(at_b), col0, k0);
    __syncthreads();
    for (int k = 0; k < kDepth; ++k)
      for (int i = 0; i < kTile / kRows; ++i)
        sum[i] += tile_a[k][threadIdx.y + i * kRows] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  for (int i = 0; i < kTile / kRows; ++i) result.put(row0 + threadIdx.y + i * kRows, col0 + threadIdx.x, sum[i]);
}

// The same with a square of results in each thread's registers, read from shared memory up to four at once.
template <typename scalar_t>
__global__ void product_squares(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b,
                                Result<scalar_t> result) {
  constexpr int side = kTile / 16, run = side < 4 ? side : 4;
  struct alignas(4 * run) Run {
    float at[run];
  };
  __shared__ alignas(16) float tile_a[kDepth][kTile + 4];
  __shared__ alignas(16) float tile_b[kDepth][kTile + 4];
  const int64_t across = (at_b.cols + kTile - 1) / kTile;
  const int64_t row0 = blockIdx.x / across * kTile, col0 = blockIdx.x % across * kTile;
  const int down = threadIdx.y * 2 + threadIdx.x / 16, right = threadIdx.x % 16;
  const auto place = [](int own, int i) { return i / run * 16 * run + own * run + i % run; };
  float sum[side][side] = {};
  for (int64_t k0 = 0; k0 < at_a.cols; k0 += kDepth) {
    load(tile_a, a, at_a, row0, k0);
    load(tile_b, b, turned(at_b), col0, k0);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kDepth; ++k) {
      Run left[side / run], top[side / run];
#pragma unroll
      for (int i = 0; i < side; i += run) {
        left[i / run] = *reinterpret_cast<const Run*>(&tile_a[k][place(down, i)]);
        top[i / run] = *reinterpret_cast<const Run*>(&tile_b[k][place(right, i)]);
      }
#pragma unroll
      for (int i = 0; i < side * side; ++i)
        sum[i / side][i % side] += left[i / side / run].at[i / side % run] * top[i % side / run].at[i % side % run];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < side * side; ++i)
    result.put(row0 + place(down, i / side), col0 + place(right, i % side), sum[i / side][i % side]);
}

// Either of the two by what was chosen.
template <typename scalar_t>
void multiply(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, Result<scalar_t> result) {
  const int64_t tiles = (at_a.rows + kTile - 1) / kTile * ((at_b.cols + kTile - 1) / kTile);
  auto kernel = &product<scalar_t>;
  if constexpr (STRATEGY > 0) kernel = &product_squares<scalar_t>;
  kernel<<<static_cast<unsigned>(tiles), dim3(32, kRows), 0, at::cuda::getCurrentCUDAStream()>>>(a, at_a, b, at_b,
                                                                                                 result);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Sums down the columns: 32 columns a block, kRows threads share a column.
template <typename scalar_t>
__global__ void column_sum(const scalar_t* from, scalar_t* out, int64_t rows, int64_t cols) {
  __shared__ float partial[kRows][33];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0f;
  if (col < cols)
    for (int64_t row = threadIdx.y; row < rows; row += kRows) sum += static_cast<float>(from[row * cols + col]);
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int i = 1; i < kRows; ++i) sum += partial[i][threadIdx.x];
  out[col] = static_cast<scalar_t>(sum);
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
  auto gated = torch::empty_like(grad_out), grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const float* grad = gated.data_ptr<float>();
  gate<<<static_cast<unsigned>(std::min<int64_t>((count + 255) / 256, 1 << 20)), 256, 0, stream>>>(
      grad_out.data_ptr<float>(), out.data_ptr<float>(), gated.data_ptr<float>(), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  multiply<float>(grad, dense(rows, cols), weight.data_ptr<float>(), dense(cols, inner),
                  {grad_x.data_ptr<float>(), rows, inner});
  multiply<float>(grad, flipped(rows, cols), x.data_ptr<float>(), dense(rows, inner),
                  {grad_weight.data_ptr<float>(), cols, inner});
  column_sum<<<static_cast<unsigned>((cols + 31) / 32), dim3(32, kRows), 0, stream>>>(
      grad, grad_bias.data_ptr<float>(), rows, cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
