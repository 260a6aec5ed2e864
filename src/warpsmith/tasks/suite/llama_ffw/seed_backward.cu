// Gradients of LLaMA's feed-forward layer: six products by tiles in shared memory, the gate's derivative between them.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a product is made. 0: tiles of 32 by 32, four results a thread. 1: tiles of TILE by TILE, a square of results in
// each thread's registers. 2: as 1, 16-bit numbers by tensor cores.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// Rows and columns of a tile of results, and steps of the sum that are in shared memory at once.
// tune: TILE = 64 [32, 64, 128]
#ifndef TILE
#define TILE 64
#endif
// tune: DEPTH = 16 [16, 32]
#ifndef DEPTH
#define DEPTH 16
#endif

#if STRATEGY == 2
#include <mma.h>
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

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

// Where the results go, and what they are added to, where that is given.
template <typename scalar_t>
struct Result {
  scalar_t* out;
  int64_t rows, cols;
  const scalar_t* added = nullptr;
  __device__ void put(int64_t row, int64_t col, float sum) const {
    if (row >= rows || col >= cols) return;
    if (added) sum += static_cast<float>(added[row * cols + col]);
    out[row * cols + col] = static_cast<scalar_t>(sum);
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

#if STRATEGY == 2
// The same by tensor cores: two by four warps (by two in a small tile), each with its squares of 16 by 16.
template <typename scalar_t>
__global__ void product_cores(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, Result<scalar_t> result) {
  using namespace nvcuda::wmma;
  using native_t = std::conditional_t<std::is_same_v<scalar_t, at::Half>, __half, __nv_bfloat16>;
  constexpr int wide = kTile < 64 ? 2 : 4, down = kTile / 32, right = kTile / 16 / wide, pitch = kTile + 8;
  __shared__ alignas(32) native_t tile_a[kDepth][pitch], tile_b[kDepth][pitch];
  __shared__ alignas(32) float staged[kRows][256];
  const int64_t across = (at_b.cols + kTile - 1) / kTile;
  const int64_t row0 = blockIdx.x / across * kTile, col0 = blockIdx.x % across * kTile;
  const int warp = threadIdx.y, row = warp / wide * down * 16, col = warp % wide * right * 16;
  fragment<accumulator, 16, 16, 16, float> sum[down][right];
  for (int i = 0; i < down * right; ++i) fill_fragment(sum[i / right][i % right], 0.0f);
  for (int64_t k0 = 0; k0 < at_a.cols; k0 += kDepth) {
    load(tile_a, a, at_a, row0, k0);
    load(tile_b, b, turned(at_b), col0, k0);
    __syncthreads();
    for (int k = 0; k < kDepth && row < kTile; k += 16) {
      fragment<matrix_a, 16, 16, 16, native_t, col_major> left[down];
      fragment<matrix_b, 16, 16, 16, native_t, row_major> top[right];
      for (int i = 0; i < down; ++i) load_matrix_sync(left[i], &tile_a[k][row + 16 * i], pitch);
      for (int i = 0; i < right; ++i) load_matrix_sync(top[i], &tile_b[k][col + 16 * i], pitch);
      for (int i = 0; i < down * right; ++i)
        mma_sync(sum[i / right][i % right], left[i / right], top[i % right], sum[i / right][i % right]);
    }
    __syncthreads();
  }
  for (int i = 0; i < down * right && row < kTile; ++i) {
    store_matrix_sync(staged[warp], sum[i / right][i % right], 16, mem_row_major);
    __syncwarp();
    for (int j = threadIdx.x; j < 256; j += 32)
      result.put(row0 + row + i / right * 16 + j / 16, col0 + col + i % right * 16 + j % 16, staged[warp][j]);
    __syncwarp();
  }
}
#endif

// Any of the three by what was chosen.
template <typename scalar_t>
void multiply(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, Result<scalar_t> result) {
  const int64_t tiles = (at_a.rows + kTile - 1) / kTile * ((at_b.cols + kTile - 1) / kTile);
  auto kernel = &product<scalar_t>;
  if constexpr (STRATEGY > 0) kernel = &product_squares<scalar_t>;
#if STRATEGY == 2
  if constexpr (sizeof(scalar_t) == 2) kernel = &product_cores<scalar_t>;
#endif
  kernel<<<static_cast<unsigned>(tiles), dim3(32, kRows), 0, at::cuda::getCurrentCUDAStream()>>>(a, at_a, b, at_b,
                                                                                                 result);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

// From the gradient at silu(gate) * up: that product again, and the gradients of both of its factors.
template <typename scalar_t>
__global__ void gate_gradients(const scalar_t* grad, const scalar_t* gate, const scalar_t* up, scalar_t* product_out,
                               scalar_t* grad_gate, scalar_t* grad_up, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float d = static_cast<float>(grad[i]), g = static_cast<float>(gate[i]), u = static_cast<float>(up[i]);
    const float share = 1.0f / (1.0f + expf(-g));
    product_out[i] = static_cast<scalar_t>(g * share * u);
    grad_gate[i] = static_cast<scalar_t>(d * u * share * (1.0f + g * (1.0f - share)));
    grad_up[i] = static_cast<scalar_t>(d * g * share);
  }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor gate_weight,
                                    torch::Tensor up_weight, torch::Tensor down_weight, torch::Tensor gate,
                                    torch::Tensor up) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && gate_weight.is_contiguous(), "must be contiguous");
  TORCH_CHECK(up_weight.is_contiguous() && down_weight.is_contiguous(), "weights must be contiguous");
  TORCH_CHECK(gate.is_contiguous() && up.is_contiguous(), "gate and up must be contiguous");
  const int64_t rows = x.size(0), hidden = x.size(1), inner = gate_weight.size(0);
  auto grad_inner = torch::empty_like(gate), grad_gate = torch::empty_like(gate), grad_up = torch::empty_like(up);
  auto between = torch::empty_like(gate), part = torch::empty_like(x), grad_x = torch::empty_like(x);
  auto gate_result = torch::empty_like(gate_weight), up_result = torch::empty_like(up_weight);
  auto down_result = torch::empty_like(down_weight);
  const Layout narrow = dense(rows, inner), turned_narrow = flipped(rows, inner), by = dense(inner, hidden);
  const Layout wide = dense(rows, hidden), turned_wide = flipped(rows, hidden);
  DISPATCH(x, "llama_ffw_backward", [&] {
    const auto data = [](torch::Tensor tensor) { return tensor.data_ptr<scalar_t>(); };
    multiply<scalar_t>(data(grad_out), wide, data(down_weight), dense(hidden, inner), {data(grad_inner), rows, inner});
    gate_gradients<scalar_t><<<blocks_for(rows * inner), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        data(grad_inner), data(gate), data(up), data(between), data(grad_gate), data(grad_up), rows * inner);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    multiply<scalar_t>(data(grad_out), turned_wide, data(between), narrow, {data(down_result), hidden, inner});
    multiply<scalar_t>(data(grad_gate), turned_narrow, data(x), wide, {data(gate_result), inner, hidden});
    multiply<scalar_t>(data(grad_up), turned_narrow, data(x), wide, {data(up_result), inner, hidden});
    multiply<scalar_t>(data(grad_gate), narrow, data(gate_weight), by, {data(part), rows, hidden});
    multiply<scalar_t>(data(grad_up), narrow, data(up_weight), by, {data(grad_x), rows, hidden, data(part)});
  });
  return {grad_x, gate_result, up_result, down_result};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
