// Gradients of ResNet's basic block: ReLU and batch norm one block a channel, convolutions as direct sums.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

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

struct Shape {
  int64_t batch, channels;
  int height, width;
};

Shape shape_of(torch::Tensor x) {
  return {x.size(0), x.size(1), static_cast<int>(x.size(2)), static_cast<int>(x.size(3))};
}

// Through ReLU (open where `active` is positive) and batch norm: the gradient of the convolution, of gain and of shift.
// One block a channel.
__global__ void norm_gradients(const float* grad, const float* active, const float* conv, const float* gamma,
                               const float* mean, const float* var, float eps, float* grad_conv, float* grad_gamma,
                               float* grad_beta, Shape s) {
  const int64_t channel = blockIdx.x, area = static_cast<int64_t>(s.height) * s.width;
  const float middle = mean[channel], rstd = 1.0f / sqrtf(var[channel] + eps), scale = gamma[channel] * rstd;
  float gain = 0.0f, shift = 0.0f;
  for (int64_t image = 0; image < s.batch; ++image) {
    const int64_t start = (image * s.channels + channel) * area;
    for (int64_t i = start + threadIdx.x; i < start + area; i += kThreads) {
      const float open = active[i] > 0.0f ? grad[i] : 0.0f;
      gain += open * (conv[i] - middle) * rstd;
      shift += open;
      grad_conv[i] = open * scale;
    }
  }
  gain = block_sum(gain);
  shift = block_sum(shift);
  if (threadIdx.x != 0) return;
  grad_gamma[channel] = gain;
  grad_beta[channel] = shift;
}

// The gradient of a 3 by 3 convolution's input, and the shortcut's where one is given. One thread an input.
__global__ void input_gradient(const float* grad_conv, const float* weight, const float* grad_out, const float* out,
                               float* grad_x, Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.batch * s.channels * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = static_cast<int>(i % area / s.width), col = static_cast<int>(i % s.width);
    const int64_t channel = i / area % s.channels, image = i / area / s.channels;
    float sum = grad_out && out[i] > 0.0f ? grad_out[i] : 0.0f;
    for (int64_t filter = 0; filter < s.channels; ++filter) {
      const float* plane = grad_conv + (image * s.channels + filter) * area;
      const float* entry = weight + (filter * s.channels + channel) * 9;
      for (int r = max(row - 1, 0); r <= min(row + 1, s.height - 1); ++r)
        for (int c = max(col - 1, 0); c <= min(col + 1, s.width - 1); ++c)
          sum += plane[static_cast<int64_t>(r) * s.width + c] * entry[(row - r + 1) * 3 + col - c + 1];
    }
    grad_x[i] = sum;
  }
}

// The gradient of one entry of one filter: a sum over all images and places. One block an entry.
__global__ void weight_gradient(const float* grad_conv, const float* x, float* grad_weight, Shape s) {
  const int area = s.height * s.width;
  const int64_t entry = blockIdx.x;
  const int r = static_cast<int>(entry / 3 % 3) - 1, c = static_cast<int>(entry % 3) - 1;
  const int64_t channel = entry / 9 % s.channels, filter = entry / 9 / s.channels;
  float sum = 0.0f;
  for (int64_t image = 0; image < s.batch; ++image) {
    const float* grads = grad_conv + (image * s.channels + filter) * area;
    const float* values = x + (image * s.channels + channel) * area;
    for (int i = threadIdx.x; i < area; i += kThreads) {
      const int row = i / s.width + r, col = i % s.width + c;
      if (row >= 0 && row < s.height && col >= 0 && col < s.width) sum += grads[i] * values[row * s.width + col];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) grad_weight[entry] = sum;
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight1,
                                    torch::Tensor gamma1, torch::Tensor beta1, torch::Tensor weight2,
                                    torch::Tensor gamma2, torch::Tensor beta2, torch::Tensor mean1, torch::Tensor var1,
                                    torch::Tensor mean2, torch::Tensor var2, double eps, torch::Tensor conv1,
                                    torch::Tensor hidden, torch::Tensor conv2, torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight1.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(weight2.is_contiguous() && conv1.is_contiguous() && hidden.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(conv2.is_contiguous() && out.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x);
  auto grad_conv = torch::empty_like(x), grad_hidden = torch::empty_like(x), grad_x = torch::empty_like(x);
  auto grad_weight1 = torch::empty_like(weight1), grad_weight2 = torch::empty_like(weight2);
  auto grad_gamma1 = torch::empty_like(gamma1), grad_gamma2 = torch::empty_like(gamma2);
  auto grad_beta1 = torch::empty_like(beta1), grad_beta2 = torch::empty_like(beta2);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned channels = static_cast<unsigned>(s.channels), entries = static_cast<unsigned>(weight1.numel());
  float* grad = grad_conv.data_ptr<float>();

  norm_gradients<<<channels, kThreads, 0, stream>>>(
      grad_out.data_ptr<float>(), out.data_ptr<float>(), conv2.data_ptr<float>(), gamma2.data_ptr<float>(),
      mean2.data_ptr<float>(), var2.data_ptr<float>(), static_cast<float>(eps), grad, grad_gamma2.data_ptr<float>(),
      grad_beta2.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  weight_gradient<<<entries, kThreads, 0, stream>>>(grad, hidden.data_ptr<float>(), grad_weight2.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  input_gradient<<<blocks_for(x.numel()), kThreads, 0, stream>>>(grad, weight2.data_ptr<float>(), nullptr, nullptr,
                                                                 grad_hidden.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  norm_gradients<<<channels, kThreads, 0, stream>>>(
      grad_hidden.data_ptr<float>(), hidden.data_ptr<float>(), conv1.data_ptr<float>(), gamma1.data_ptr<float>(),
      mean1.data_ptr<float>(), var1.data_ptr<float>(), static_cast<float>(eps), grad, grad_gamma1.data_ptr<float>(),
      grad_beta1.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  weight_gradient<<<entries, kThreads, 0, stream>>>(grad, x.data_ptr<float>(), grad_weight1.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  input_gradient<<<blocks_for(x.numel()), kThreads, 0, stream>>>(grad, weight1.data_ptr<float>(),
                                                                 grad_out.data_ptr<float>(), out.data_ptr<float>(),
                                                                 grad_x.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weight1, grad_gamma1, grad_beta1, grad_weight2, grad_gamma2, grad_beta2};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
