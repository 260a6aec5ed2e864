// RMSNorm over the last axis, one block a row.
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
// tune: BLOCK = 256 [128, 256, 512, 1024]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once (a pack), where the row's length allows.
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kHeld = VEC > 4 ? 4 : 8;  // packs of a row that a thread can hold

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

template <int Vec, typename scalar_t>
__device__ void finish(scalar_t* to, const scalar_t* weight, const float (&values)[Vec], float rstd) {
  float gain[Vec];
  load(gain, weight);
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) result.at[j] = static_cast<scalar_t>(values[j] * rstd * gain[j]);
  *reinterpret_cast<Pack<scalar_t, Vec>*>(to) = result;
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

template <typename scalar_t, int Vec>
__global__ void rmsnorm(const scalar_t* x, const scalar_t* weight, scalar_t* out, int64_t cols, float eps) {
  const int64_t start = blockIdx.x * cols;
  float values[Vec], square = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
    load(values, x + start + i);
    for (int j = 0; j < Vec; ++j) square += values[j] * values[j];
  }
  const float rstd = rsqrtf(team_sum<BLOCK>(square) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
    load(values, x + start + i);
    finish(out + start + i, weight + i, values, rstd);
  }
}

// A team a row; each thread holds its part of the row.
template <typename scalar_t, int Vec, int Team>
__global__ void rmsnorm_held(const scalar_t* x, const scalar_t* weight, scalar_t* out, int64_t rows, int cols,
                             float eps) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / Team) + threadIdx.x / Team;
  if (row >= rows) return;
  const int first = threadIdx.x % Team * Vec;
  float values[kHeld][Vec], square = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * Team * Vec >= cols) continue;
    load(values[k], x + row * cols + first + k * Team * Vec);
    for (int j = 0; j < Vec; ++j) square += values[k][j] * values[k][j];
  }
  const float rstd = rsqrtf(team_sum<Team>(square) / static_cast<float>(cols) + eps);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int i = first + k * Team * Vec;
    if (i < cols) finish(out + row * cols + i, weight + i, values[k], rstd);
  }
}

template <typename scalar_t, int Vec>
void launch(torch::Tensor x, torch::Tensor weight, torch::Tensor out, float eps) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  const auto *from = x.data_ptr<scalar_t>(), *gain = weight.data_ptr<scalar_t>();
  auto* to = out.data_ptr<scalar_t>();
  if constexpr (STRATEGY > 0) {
    constexpr int team = STRATEGY == 2 ? 32 : BLOCK, together = BLOCK / team;
    const unsigned blocks = static_cast<unsigned>((rows + together - 1) / together);
    if (cols <= kHeld * Vec * team) {
      rmsnorm_held<scalar_t, Vec, team>
          <<<blocks, BLOCK, 0, stream>>>(from, gain, to, rows, static_cast<int>(cols), eps);
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  rmsnorm<scalar_t, Vec><<<static_cast<unsigned>(rows), BLOCK, 0, stream>>>(from, gain, to, cols, eps);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "x and weight must be contiguous");
  auto out = torch::empty_like(x);
  DISPATCH(x, "rmsnorm", [&] {
    if (x.size(-1) % VEC == 0)
      launch<scalar_t, VEC>(x, weight, out, static_cast<float>(eps));
    else
      launch<scalar_t, 1>(x, weight, out, static_cast<float>(eps));
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
