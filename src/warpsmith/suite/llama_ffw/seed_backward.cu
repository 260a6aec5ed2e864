// Gradients of LLaMA's feed-forward layer: six products by tiles in shared memory, the gate's derivative between them.
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

// out = a · b + added, where that is given; out is dense. One block a tile of out.
template <typename scalar_t>
__global__ void product(const scalar_t* a, Layout at_a, const scalar_t* b, Layout at_b, const scalar_t* added,
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
    const float start = added ? static_cast<float>(added[row * at_b.cols + col]) : 0.0f;
    out[row * at_b.cols + col] = static_cast<scalar_t>(start + sum[i]);
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

template <typename scalar_t>
void multiply(torch::Tensor a, Layout at_a, torch::Tensor b, Layout at_b, torch::Tensor out,
              const scalar_t* added = nullptr) {
  product<scalar_t><<<tiles(at_a, at_b), dim3(kTile, kRows), 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<scalar_t>(), at_a, b.data_ptr<scalar_t>(), at_b, added, out.data_ptr<scalar_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
  auto between = torch::empty_like(gate);
  auto part = torch::empty_like(x), grad_x = torch::empty_like(x);
  auto grad_gate_weight = torch::empty_like(gate_weight), grad_up_weight = torch::empty_like(up_weight);
  auto grad_down_weight = torch::empty_like(down_weight);
  DISPATCH(x, "llama_ffw_backward", [&] {
    multiply<scalar_t>(grad_out, dense(rows, hidden), down_weight, dense(hidden, inner), grad_inner);
    gate_gradients<scalar_t><<<blocks_for(rows * inner), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        grad_inner.data_ptr<scalar_t>(), gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(),
        between.data_ptr<scalar_t>(), grad_gate.data_ptr<scalar_t>(), grad_up.data_ptr<scalar_t>(), rows * inner);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    multiply<scalar_t>(grad_out, flipped(rows, hidden), between, dense(rows, inner), grad_down_weight);
    multiply<scalar_t>(grad_gate, flipped(rows, inner), x, dense(rows, hidden), grad_gate_weight);
    multiply<scalar_t>(grad_up, flipped(rows, inner), x, dense(rows, hidden), grad_up_weight);
    multiply<scalar_t>(grad_gate, dense(rows, inner), gate_weight, dense(inner, hidden), part);
    multiply<scalar_t>(grad_up, dense(rows, inner), up_weight, dense(inner, hidden), grad_x,
                       part.data_ptr<scalar_t>());
  });
  return {grad_x, grad_gate_weight, grad_up_weight, grad_down_weight};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
