// Gradients of LayerNorm: one block a row for the input, 32 columns a block for gain and bias.
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
constexpr int kWide = 32;
constexpr int kTall = kThreads / kWide;

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
__global__ void input_gradient(const scalar_t* grad_out, const scalar_t* x, const scalar_t* weight, const float* mean,
                               const float* rstd, scalar_t* grad_x, int64_t cols) {
  const int64_t start = blockIdx.x * cols;
  const float middle = mean[blockIdx.x], scale = rstd[blockIdx.x];
  float sum = 0.0f, turned = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float inner = static_cast<float>(grad_out[start + i]) * static_cast<float>(weight[i]);
    sum += inner;
    turned += inner * (static_cast<float>(x[start + i]) - middle) * scale;
  }
  sum = block_sum(sum) / static_cast<float>(cols);
  turned = block_sum(turned) / static_cast<float>(cols);
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float inner = static_cast<float>(grad_out[start + i]) * static_cast<float>(weight[i]);
    const float hat = (static_cast<float>(x[start + i]) - middle) * scale;
    grad_x[start + i] = static_cast<scalar_t>((inner - sum - hat * turned) * scale);
  }
}

template <typename scalar_t>
__global__ void parameter_gradients(const scalar_t* grad_out, const scalar_t* x, const float* mean, const float* rstd,
                                    scalar_t* grad_weight, scalar_t* grad_bias, int64_t rows, int64_t cols) {
  __shared__ float gains[kTall][kWide + 1];
  __shared__ float shifts[kTall][kWide + 1];
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kWide + threadIdx.x;
  float gain = 0.0f, shift = 0.0f;
  if (col < cols)
    for (int64_t row = threadIdx.y; row < rows; row += kTall) {
      const float grad = static_cast<float>(grad_out[row * cols + col]);
      gain += grad * (static_cast<float>(x[row * cols + col]) - mean[row]) * rstd[row];
      shift += grad;
    }
  gains[threadIdx.y][threadIdx.x] = gain;
  shifts[threadIdx.y][threadIdx.x] = shift;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int i = 1; i < kTall; ++i) {
    gain += gains[i][threadIdx.x];
    shift += shifts[i][threadIdx.x];
  }
  grad_weight[col] = static_cast<scalar_t>(gain);
  grad_bias[col] = static_cast<scalar_t>(shift);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    double eps, torch::Tensor mean, torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x);
  auto grad_weight = torch::empty_like(weight);
  auto grad_bias = torch::empty_like(bias);
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  const auto stream = at::cuda::getCurrentCUDAStream();
  DISPATCH(x, "layernorm_backward", [&] {
    input_gradient<scalar_t><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), mean.data_ptr<float>(),
        rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(), cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    parameter_gradients<scalar_t>
        <<<static_cast<unsigned>((cols + kWide - 1) / kWide), dim3(kWide, kTall), 0, stream>>>(
            grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), mean.data_ptr<float>(), rstd.data_ptr<float>(),
            grad_weight.data_ptr<scalar_t>(), grad_bias.data_ptr<scalar_t>(), rows, cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
