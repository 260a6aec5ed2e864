// Softmax over the last axis, one block a row.
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

template <typename scalar_t>
__global__ void softmax(const scalar_t* x, scalar_t* out, int64_t cols) {
  const scalar_t* row = x + blockIdx.x * cols;
  scalar_t* to = out + blockIdx.x * cols;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) largest = fmaxf(largest, static_cast<float>(row[i]));
  largest = block_max(largest);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) sum += expf(static_cast<float>(row[i]) - largest);
  sum = block_sum(sum);
  for (int64_t i = threadIdx.x; i < cols; i += kThreads)
    to[i] = static_cast<scalar_t>(expf(static_cast<float>(row[i]) - largest) / sum);
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  const unsigned rows = static_cast<unsigned>(x.numel() / cols);
  DISPATCH(x, "softmax", [&] {
    softmax<scalar_t><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(),
                                                                               out.data_ptr<scalar_t>(), cols);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
