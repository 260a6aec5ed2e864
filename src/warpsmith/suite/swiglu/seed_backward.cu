// Gradients of silu(gate) * up, one thread an element.
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

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

template <typename scalar_t>
__global__ void swiglu_backward(const scalar_t* grad_out, const scalar_t* gate, const scalar_t* up,
                                scalar_t* grad_gate, scalar_t* grad_up, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float grad = static_cast<float>(grad_out[i]);
    const float g = static_cast<float>(gate[i]);
    const float share = 1.0f / (1.0f + expf(-g));
    grad_gate[i] = static_cast<scalar_t>(grad * static_cast<float>(up[i]) * share * (1.0f + g * (1.0f - share)));
    grad_up[i] = static_cast<scalar_t>(grad * g * share);
  }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor gate, torch::Tensor up) {
  TORCH_CHECK(grad_out.is_contiguous() && gate.is_contiguous() && up.is_contiguous(), "tensors must be contiguous");
  auto grad_gate = torch::empty_like(gate);
  auto grad_up = torch::empty_like(up);
  DISPATCH(gate, "swiglu_backward", [&] {
    swiglu_backward<scalar_t><<<blocks_for(gate.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        grad_out.data_ptr<scalar_t>(), gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(),
        grad_gate.data_ptr<scalar_t>(), grad_up.data_ptr<scalar_t>(), gate.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_gate, grad_up};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
