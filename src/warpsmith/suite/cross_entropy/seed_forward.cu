// Mean cross-entropy: one block a row for its loss, then one block for the mean.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kThreads = 256;

// The sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += partial[warp];
  return total;
}

// The maximum over the block, the same in every thread.
__device__ float block_max(float value) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, step));
  __syncthreads();  // a maximum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = partial[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) largest = fmaxf(largest, partial[warp]);
  return largest;
}

__global__ void row_loss(const float* logits, const int64_t* targets, float* losses, int64_t classes) {
  const float* row = logits + blockIdx.x * classes;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < classes; i += kThreads) largest = fmaxf(largest, row[i]);
  largest = block_max(largest);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < classes; i += kThreads) sum += expf(row[i] - largest);
  sum = block_sum(sum);
  // The maximum cancels against the target's logit before the logarithm joins: no digits are lost to a large offset.
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + (largest - row[targets[blockIdx.x]]);
}

__global__ void mean(const float* losses, float* out, int64_t rows) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) sum += losses[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum / static_cast<float>(rows);
}

}  // namespace

torch::Tensor forward(torch::Tensor logits, torch::Tensor targets) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous(), "logits and targets must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto losses = torch::empty({rows}, logits.options());
  auto out = torch::empty({}, logits.options());
  const auto stream = at::cuda::getCurrentCUDAStream();
  row_loss<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits.data_ptr<float>(), targets.data_ptr<int64_t>(),
                                                                 losses.data_ptr<float>(), classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  mean<<<1, kThreads, 0, stream>>>(losses.data_ptr<float>(), out.data_ptr<float>(), rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
