// Gradients of GroupNorm and SiLU: one block a group of an image, then one block a channel.
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

// The gradient that reaches the normalized value scaled and shifted: SiLU's derivative at it.
__device__ float through_silu(float grad, float normal) {
  const float share = 1.0f / (1.0f + expf(-normal));
  return grad * share * (1.0f + normal * (1.0f - share));
}

template <typename scalar_t>
__global__ void input_gradient(const scalar_t* grad_out, const scalar_t* x, const scalar_t* weight,
                               const scalar_t* bias, const float* mean, const float* rstd, scalar_t* grad_x,
                               int64_t groups, int64_t share, int64_t plane) {
  const int64_t count = share * plane, start = blockIdx.x * count;
  const int64_t channel0 = blockIdx.x % groups * share;
  const float middle = mean[blockIdx.x], scale = rstd[blockIdx.x];
  float sum = 0.0f, turned = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const int64_t channel = channel0 + i / plane;
    const float gain = static_cast<float>(weight[channel]);
    const float hat = (static_cast<float>(x[start + i]) - middle) * scale;
    const float normal = hat * gain + static_cast<float>(bias[channel]);
    const float inner = through_silu(static_cast<float>(grad_out[start + i]), normal) * gain;
    sum += inner;
    turned += inner * hat;
  }
  sum = block_sum(sum) / static_cast<float>(count);
  turned = block_sum(turned) / static_cast<float>(count);
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    const int64_t channel = channel0 + i / plane;
    const float gain = static_cast<float>(weight[channel]);
    const float hat = (static_cast<float>(x[start + i]) - middle) * scale;
    const float normal = hat * gain + static_cast<float>(bias[channel]);
    const float inner = through_silu(static_cast<float>(grad_out[start + i]), normal) * gain;
    grad_x[start + i] = static_cast<scalar_t>((inner - sum - hat * turned) * scale);
  }
}

template <typename scalar_t>
__global__ void parameter_gradients(const scalar_t* grad_out, const scalar_t* x, const scalar_t* weight,
                                    const scalar_t* bias, const float* mean, const float* rstd, scalar_t* grad_weight,
                                    scalar_t* grad_bias, int64_t batch, int64_t channels, int64_t groups,
                                    int64_t plane) {
  const int64_t channel = blockIdx.x, share = channels / groups;
  const float gain = static_cast<float>(weight[channel]), shift = static_cast<float>(bias[channel]);
  float gains = 0.0f, shifts = 0.0f;
  for (int64_t image = 0; image < batch; ++image) {
    const int64_t start = (image * channels + channel) * plane, group = image * groups + channel / share;
    for (int64_t i = threadIdx.x; i < plane; i += kThreads) {
      const float hat = (static_cast<float>(x[start + i]) - mean[group]) * rstd[group];
      const float inner = through_silu(static_cast<float>(grad_out[start + i]), hat * gain + shift);
      gains += inner * hat;
      shifts += inner;
    }
  }
  gains = block_sum(gains);
  shifts = block_sum(shifts);
  if (threadIdx.x != 0) return;
  grad_weight[channel] = static_cast<scalar_t>(gains);
  grad_bias[channel] = static_cast<scalar_t>(shifts);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    int64_t groups, double eps, torch::Tensor mean, torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(bias);
  const int64_t batch = x.size(0), channels = x.size(1), plane = x.size(2) * x.size(3);
  const auto stream = at::cuda::getCurrentCUDAStream();
  DISPATCH(x, "group_norm_silu_backward", [&] {
    input_gradient<scalar_t><<<static_cast<unsigned>(batch * groups), kThreads, 0, stream>>>(
        grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
        mean.data_ptr<float>(), rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(), groups, channels / groups, plane);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    parameter_gradients<scalar_t><<<static_cast<unsigned>(channels), kThreads, 0, stream>>>(
        grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
        mean.data_ptr<float>(), rstd.data_ptr<float>(), grad_weight.data_ptr<scalar_t>(),
        grad_bias.data_ptr<scalar_t>(), batch, channels, groups, plane);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
