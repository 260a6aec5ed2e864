// Gradient of softmax from its output: out * (grad - sum(grad * out)), one block a row.
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
__global__ void softmax_backward(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, int64_t cols) {
  const int64_t start = blockIdx.x * cols;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads)
    sum += static_cast<float>(grad_out[start + i]) * static_cast<float>(out[start + i]);
  sum = block_sum(sum);
  for (int64_t i = threadIdx.x; i < cols; i += kThreads)
    grad_x[start + i] =
        static_cast<scalar_t>(static_cast<float>(out[start + i]) * (static_cast<float>(grad_out[start + i]) - sum));
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && out.is_contiguous(), "grad_out and out must be contiguous");
  auto grad_x = torch::empty_like(out);
  const int64_t cols = out.size(-1);
  const unsigned rows = static_cast<unsigned>(out.numel() / cols);
  DISPATCH(out, "softmax_backward", [&] {
    softmax_backward<scalar_t><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        grad_out.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), grad_x.data_ptr<scalar_t>(), cols);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
