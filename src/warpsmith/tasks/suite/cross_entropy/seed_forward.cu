// Mean cross-entropy: one block a row for its loss, then one block for the mean.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a row is worked on. 0: a block a row, read twice. 1: a block a row, maximum and sum in one pass. 2: a warp a row,
// in one pass.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512, 1024]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once, where the row's length allows.
// tune: VEC = 1 [1, 4]
#ifndef VEC
#define VEC 1
#endif
// Whether one block makes all of a small problem in one launch, a thread a row.
// tune: FUSED = 0 [0, 1]
#ifndef FUSED
#define FUSED 0
#endif

namespace {

constexpr int kTeam = STRATEGY == 2 ? 32 : BLOCK;  // threads that share a row
constexpr int64_t kSmall = 1 << 13;                // logits of a small problem
constexpr int64_t kFewClasses = 64;                // of a row that one thread has

template <int Vec>
struct alignas(sizeof(float) * Vec) Pack {
  float at[Vec];
};

template <int Vec>
__device__ Pack<Vec> load(const float* from) {
  return *reinterpret_cast<const Pack<Vec>*>(from);
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

// The row's maximum and the sum of exponentials below it, in two passes.
template <int Vec>
__device__ void two_passes(const float* row, int64_t classes, float& largest, float& sum) {
  const int64_t first = threadIdx.x % kTeam * Vec;
  for (int64_t i = first; i < classes; i += kTeam * Vec) {
    const auto values = load<Vec>(row + i);
    for (int j = 0; j < Vec; ++j) largest = fmaxf(largest, values.at[j]);
  }
  largest = team_max<kTeam>(largest);
  for (int64_t i = first; i < classes; i += kTeam * Vec) {
    const auto values = load<Vec>(row + i);
    for (int j = 0; j < Vec; ++j) sum += expf(values.at[j] - largest);
  }
}

// The same in one pass: the sum shrinks whenever the maximum grows.
template <int Vec>
__device__ void one_pass(const float* row, int64_t classes, float& largest, float& sum) {
  float own = -INFINITY;
  for (int64_t i = threadIdx.x % kTeam * Vec; i < classes; i += kTeam * Vec) {
    const auto values = load<Vec>(row + i);
    const float before = own;
    for (int j = 0; j < Vec; ++j) own = fmaxf(own, values.at[j]);
    if (own > before) sum *= expf(before - own);
    for (int j = 0; j < Vec; ++j) sum += expf(values.at[j] - own);
  }
  largest = team_max<kTeam>(own);
  if (own > -INFINITY) sum *= expf(own - largest);
}

template <int Vec>
__global__ void row_loss(const float* logits, const int64_t* targets, float* losses, int64_t rows, int64_t classes) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * (BLOCK / kTeam) + threadIdx.x / kTeam;
  if (place >= rows) return;
  const float* row = logits + place * classes;
  float largest = -INFINITY, sum = 0.0f;
  if constexpr (STRATEGY == 0)
    two_passes<Vec>(row, classes, largest, sum);
  else
    one_pass<Vec>(row, classes, largest, sum);
  sum = team_sum<kTeam>(sum);
  // The maximum cancels against the target's logit before the logarithm joins: no digits are lost to a large offset.
  if (threadIdx.x % kTeam == 0) losses[place] = logf(sum) + (largest - row[targets[place]]);
}

__global__ void mean(const float* losses, float* out, int64_t rows) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < rows; i += BLOCK) sum += losses[i];
  sum = team_sum<BLOCK>(sum);
  if (threadIdx.x == 0) *out = sum / static_cast<float>(rows);
}

// Losses and mean by one block.
__global__ void mean_loss(const float* logits, const int64_t* targets, float* out, int64_t rows, int64_t classes) {
  float total = 0.0f;
  for (int64_t i = threadIdx.x; i < rows; i += BLOCK) {
    const float* row = logits + i * classes;
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < classes; ++j) largest = fmaxf(largest, row[j]);
    for (int64_t j = 0; j < classes; ++j) sum += expf(row[j] - largest);
    total += logf(sum) + (largest - row[targets[i]]);
  }
  total = team_sum<BLOCK>(total);
  if (threadIdx.x == 0) *out = total / static_cast<float>(rows);
}

}  // namespace

torch::Tensor forward(torch::Tensor logits, torch::Tensor targets) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous(), "logits and targets must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto losses = torch::empty({rows}, logits.options());
  auto out = torch::empty({}, logits.options());
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (FUSED && classes <= kFewClasses && rows * classes <= kSmall) {
    mean_loss<<<1, BLOCK, 0, stream>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(), out.data_ptr<float>(),
                                       rows, classes);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
  }
  const auto row_losses = classes % VEC == 0 ? row_loss<VEC> : row_loss<1>;
  const unsigned blocks = static_cast<unsigned>((rows + BLOCK / kTeam - 1) / (BLOCK / kTeam));
  row_losses<<<blocks, BLOCK, 0, stream>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(),
                                           losses.data_ptr<float>(), rows, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  mean<<<1, BLOCK, 0, stream>>>(losses.data_ptr<float>(), out.data_ptr<float>(), rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
