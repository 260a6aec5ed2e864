// GroupNorm and SiLU, one block a group of an image; two passes, so that the variance loses no digits.
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
__global__ void group_norm_silu(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out,
                                int64_t groups, int64_t share, int64_t plane, float eps) {
  const int64_t count = share * plane, start = blockIdx.x * count;
  const int64_t channel0 = blockIdx.x % groups * share;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += static_cast<float>(x[start + i]);
  const float mean = block_sum(sum) / static_cast<float>(count);
  float square = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const float away = static_cast<float>(x[start + i]) - mean;
    square += away * away;
  }
  const float rstd = rsqrtf(block_sum(square) / static_cast<float>(count) + eps);
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const int64_t channel = channel0 + i / plane;
    const float hat = (static_cast<float>(x[start + i]) - mean) * rstd;
    const float normal = hat * static_cast<float>(weight[channel]) + static_cast<float>(bias[channel]);
    out[start + i] = static_cast<scalar_t>(normal / (1.0f + expf(-normal)));
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t share = x.size(1) / groups, plane = x.size(2) * x.size(3);
  const unsigned blocks = static_cast<unsigned>(x.size(0) * groups);
  DISPATCH(x, "group_norm_silu", [&] {
    group_norm_silu<scalar_t><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
        groups, share, plane, static_cast<float>(eps));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
