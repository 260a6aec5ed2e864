// LayerNorm over the last axis, one block a row; two passes, so that the variance loses no digits.
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

template <typename scalar_t>
__global__ void layernorm(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, int64_t cols,
                          float eps) {
  const scalar_t* row = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) sum += static_cast<float>(row[i]);
  const float mean = block_sum(sum) / static_cast<float>(cols);
  float square = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float away = static_cast<float>(row[i]) - mean;
    square += away * away;
  }
  const float rstd = rsqrtf(block_sum(square) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float hat = (static_cast<float>(row[i]) - mean) * rstd;
    out[blockIdx.x * cols + i] =
        static_cast<scalar_t>(hat * static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  const unsigned rows = static_cast<unsigned>(x.numel() / cols);
  DISPATCH(x, "layernorm", [&] {
    layernorm<scalar_t><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), cols,
        static_cast<float>(eps));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
