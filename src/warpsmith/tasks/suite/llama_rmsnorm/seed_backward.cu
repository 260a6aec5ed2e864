// Gradients of RMSNorm: one block a row for the input, 32 columns a block for the gain.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a row is worked on. 0: a block a row, read twice. 1: a block a row, held in registers. 2: a warp a row, held in
// registers. A row too long to be held is worked on as in 0.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once (a pack), where the row's length allows.
// tune: VEC = 1 [1, 4]
#ifndef VEC
#define VEC 1
#endif
// Blocks that share the rows of a column, their sums joined by a second kernel.
// tune: CHUNKS = 1 [1, 16, 64]
#ifndef CHUNKS
#define CHUNKS 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kHeld = 8;  // packs of a row that a thread can hold
constexpr int kWide = 32;
constexpr int kTall = BLOCK / kWide;

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <typename scalar_t>
struct Rows {
  const scalar_t *grad_out, *x, *weight;
  const float* rstd;
  scalar_t* grad_x;
  int64_t rows, cols;
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

// The sum over a warp or over the block, the same in every thread.
template <int Team>
__device__ float team_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if constexpr (Team > 32) {
    __shared__ float partial[Team / 32];
    __syncthreads();  // a sum before this one may still be read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < Team / 32; ++warp) value += partial[warp];
  }
  return value;
}

// The neighbours at column `i`: the gradient of the normalized input, and that input.
template <int Vec, typename scalar_t>
__device__ void read(Rows<scalar_t> r, int64_t row, int64_t i, float (&inner)[Vec], float (&hat)[Vec]) {
  float weight[Vec];
  load(inner, r.grad_out + row * r.cols + i);
  load(hat, r.x + row * r.cols + i);
  load(weight, r.weight + i);
#pragma unroll
  for (int j = 0; j < Vec; ++j) inner[j] *= weight[j], hat[j] *= r.rstd[row];
}

template <int Vec, typename scalar_t>
__device__ void write(Rows<scalar_t> r, int64_t row, int64_t i, const float (&inner)[Vec], const float (&hat)[Vec],
                      float turned) {
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) result.at[j] = static_cast<scalar_t>((inner[j] - hat[j] * turned) * r.rstd[row]);
  *reinterpret_cast<Pack<scalar_t, Vec>*>(r.grad_x + row * r.cols + i) = result;
}

template <typename scalar_t, int Vec>
__global__ void input_gradient(Rows<scalar_t> r) {
  float inner[Vec], hat[Vec], turned = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < r.cols; i += BLOCK * Vec) {
    read(r, blockIdx.x, i, inner, hat);
    for (int j = 0; j < Vec; ++j) turned += inner[j] * hat[j];
  }
  turned = team_sum<BLOCK>(turned) / static_cast<float>(r.cols);
  for (int64_t i = threadIdx.x * Vec; i < r.cols; i += BLOCK * Vec) {
    read(r, blockIdx.x, i, inner, hat);
    write(r, blockIdx.x, i, inner, hat, turned);
  }
}

// A team a row; each thread holds its part of the row.
template <typename scalar_t, int Vec, int Team>
__global__ void input_gradient_held(Rows<scalar_t> r) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / Team) + threadIdx.x / Team;
  if (row >= r.rows) return;
  const int first = threadIdx.x % Team * Vec, cols = static_cast<int>(r.cols);
  float inner[kHeld][Vec], hat[kHeld][Vec], turned = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * Team * Vec >= cols) continue;
    read(r, row, first + k * Team * Vec, inner[k], hat[k]);
    for (int j = 0; j < Vec; ++j) turned += inner[k][j] * hat[k][j];
  }
  turned = team_sum<Team>(turned) / static_cast<float>(cols);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (first + k * Team * Vec < cols) write(r, row, first + k * Team * Vec, inner[k], hat[k], turned);
}

// Sums of one chunk of the rows: 32 columns a block, kTall threads share a column.
template <typename scalar_t, typename result_t>
__global__ void gain_gradient(Rows<scalar_t> r, result_t* gains, int64_t chunk) {
  __shared__ float shared[kTall][kWide + 1];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kWide + threadIdx.x;
  const int64_t begin = blockIdx.y * chunk, end = min(begin + chunk, r.rows);
  float gain = 0.0f;
  if (col < r.cols)
    for (int64_t row = begin + threadIdx.y; row < end; row += kTall)
      gain += static_cast<float>(r.grad_out[row * r.cols + col]) * static_cast<float>(r.x[row * r.cols + col]) *
              r.rstd[row];
  shared[threadIdx.y][threadIdx.x] = gain;
  __syncthreads();
  if (threadIdx.y != 0 || col >= r.cols) return;
  for (int i = 1; i < kTall; ++i) gain += shared[i][threadIdx.x];
  gains[blockIdx.y * r.cols + col] = static_cast<result_t>(gain);
}

// Joins the sums of the chunks, one thread a column.
template <typename scalar_t>
__global__ void join(const float* parts, scalar_t* gains, int64_t chunks, int64_t cols) {
  const int64_t col = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
  float sum = 0.0f;
  for (int64_t i = 0; i < chunks && col < cols; ++i) sum += parts[i * cols + col];
  if (col < cols) gains[col] = static_cast<scalar_t>(sum);
}

template <typename scalar_t, int Vec>
void launch_rows(Rows<scalar_t> r, cudaStream_t stream) {
  if constexpr (STRATEGY > 0) {
    constexpr int team = STRATEGY == 2 ? 32 : BLOCK, together = BLOCK / team;
    const unsigned blocks = static_cast<unsigned>((r.rows + together - 1) / together);
    if (r.cols <= kHeld * Vec * team) {
      input_gradient_held<scalar_t, Vec, team><<<blocks, BLOCK, 0, stream>>>(r);
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  input_gradient<scalar_t, Vec><<<static_cast<unsigned>(r.rows), BLOCK, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename scalar_t>
void launch_columns(Rows<scalar_t> r, torch::Tensor grad_weight, cudaStream_t stream) {
  const int64_t chunks = std::min<int64_t>(CHUNKS, (r.rows + kTall - 1) / kTall);
  const int64_t chunk = (r.rows + chunks - 1) / chunks;
  const dim3 grid(static_cast<unsigned>((r.cols + kWide - 1) / kWide), static_cast<unsigned>(chunks));
  auto* gains = grad_weight.data_ptr<scalar_t>();
  if constexpr (CHUNKS > 1) {
    auto parts = torch::empty({chunks, r.cols}, grad_weight.options().dtype(torch::kFloat32));
    float* sums = parts.template data_ptr<float>();
    gain_gradient<<<grid, dim3(kWide, kTall), 0, stream>>>(r, sums, chunk);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    join<<<static_cast<unsigned>((r.cols + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(sums, gains, chunks, r.cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    gain_gradient<<<grid, dim3(kWide, kTall), 0, stream>>>(r, gains, chunk);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, double eps,
                                    torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight);
  const int64_t cols = x.size(-1);
  const auto stream = at::cuda::getCurrentCUDAStream();
  DISPATCH(x, "rmsnorm_backward", [&] {
    const Rows<scalar_t> r = {grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
                              rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(), x.numel() / cols, cols};
    if (cols % VEC == 0)
      launch_rows<scalar_t, VEC>(r, stream);
    else
      launch_rows<scalar_t, 1>(r, stream);
    launch_columns<scalar_t>(r, grad_weight, stream);
  });
  return {grad_x, grad_weight};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
