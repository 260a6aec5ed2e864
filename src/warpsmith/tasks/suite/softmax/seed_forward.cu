// Softmax over the last axis, one block a row.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a row is worked on. 0: a block a row, read three times. 1: a block a row, maximum and sum in one pass. 2: a block
// a row, held in registers. 3: a warp a row, held in registers. A row too long to be held is worked on as in 1.
// tune: STRATEGY = 0 [0, 1, 2, 3]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
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

constexpr int kHeld = 8;  // packs of a row that a thread can hold

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

// Writes the shares of neighbours.
template <int Vec, typename scalar_t>
__device__ void finish(scalar_t* to, const float (&values)[Vec], float largest, float sum) {
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) result.at[j] = static_cast<scalar_t>(expf(values[j] - largest) / sum);
  *reinterpret_cast<Pack<scalar_t, Vec>*>(to) = result;
}

// One value of a warp's or of the block's threads, the same in every thread: their sum or their maximum.
template <int Team, class Join>
__device__ float joined(float value, Join join) {
  for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  if constexpr (Team > 32) {
    __shared__ float partial[Team / 32];
    __syncthreads();  // a value before this one may still be read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int warp = 1; warp < Team / 32; ++warp) value = join(value, partial[warp]);
  }
  return value;
}

template <int Team>
__device__ float team_sum(float value) {
  return joined<Team>(value, [](float a, float b) { return a + b; });
}

template <int Team>
__device__ float team_max(float value) {
  return joined<Team>(value, [](float a, float b) { return fmaxf(a, b); });
}

// This thread's share of a row, read once: the maximum, and the sum of exponentials below it.
template <typename scalar_t, int Vec>
__device__ void running(const scalar_t* row, int64_t cols, float& largest, float& sum) {
  float values[Vec];
  for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
    load(values, row + i);
    const float before = largest;
    for (int j = 0; j < Vec; ++j) largest = fmaxf(largest, values[j]);
    if (largest > before) sum *= expf(before - largest);
    for (int j = 0; j < Vec; ++j) sum += expf(values[j] - largest);
  }
}

template <typename scalar_t, int Vec>
__global__ void softmax(const scalar_t* x, scalar_t* out, int64_t cols) {
  const scalar_t* row = x + blockIdx.x * cols;
  float values[Vec], largest = -INFINITY, sum = 0.0f;
  if constexpr (STRATEGY > 0) {
    running<scalar_t, Vec>(row, cols, largest, sum);
    const float own = largest;
    largest = team_max<BLOCK>(own);
    sum *= own > -INFINITY ? expf(own - largest) : 1.0f;
  } else {
    for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
      load(values, row + i);
      for (int j = 0; j < Vec; ++j) largest = fmaxf(largest, values[j]);
    }
    largest = team_max<BLOCK>(largest);
    for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
      load(values, row + i);
      for (int j = 0; j < Vec; ++j) sum += expf(values[j] - largest);
    }
  }
  sum = team_sum<BLOCK>(sum);
  for (int64_t i = threadIdx.x * Vec; i < cols; i += BLOCK * Vec) {
    load(values, row + i);
    finish(out + blockIdx.x * cols + i, values, largest, sum);
  }
}

// A team a row; each thread holds its part of the row.
template <typename scalar_t, int Vec, int Team>
__global__ void softmax_held(const scalar_t* x, scalar_t* out, int64_t rows, int cols) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / Team) + threadIdx.x / Team;
  if (row >= rows) return;
  const int first = threadIdx.x % Team * Vec;
  float values[kHeld][Vec], largest = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * Team * Vec >= cols) continue;
    load(values[k], x + row * cols + first + k * Team * Vec);
    for (int j = 0; j < Vec; ++j) largest = fmaxf(largest, values[k][j]);
  }
  largest = team_max<Team>(largest);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    for (int j = 0; j < Vec && first + k * Team * Vec < cols; ++j) sum += expf(values[k][j] - largest);
  sum = team_sum<Team>(sum);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (first + k * Team * Vec < cols) finish(out + row * cols + first + k * Team * Vec, values[k], largest, sum);
}

template <typename scalar_t, int Vec>
void launch(torch::Tensor x, torch::Tensor out) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  const auto* from = x.data_ptr<scalar_t>();
  auto* to = out.data_ptr<scalar_t>();
  if constexpr (STRATEGY > 1) {
    constexpr int team = STRATEGY == 3 ? 32 : BLOCK, together = BLOCK / team;
    const unsigned blocks = static_cast<unsigned>((rows + together - 1) / together);
    if (cols <= kHeld * Vec * team) {
      softmax_held<scalar_t, Vec, team><<<blocks, BLOCK, 0, stream>>>(from, to, rows, static_cast<int>(cols));
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  softmax<scalar_t, Vec><<<static_cast<unsigned>(rows), BLOCK, 0, stream>>>(from, to, cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto out = torch::empty_like(x);
  DISPATCH(x, "softmax", [&] {
    if (x.size(-1) % VEC == 0)
      launch<scalar_t, VEC>(x, out);
    else
      launch<scalar_t, 1>(x, out);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
