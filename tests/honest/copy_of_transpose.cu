// control: a copy for non-contiguous input
// task: linear_relu
// direction: forward
// device: vgpu
// The weight is transposed by a view and copied, so that neighbouring threads read neighbouring memory.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

__global__ void product(const float* x, const float* turned, const float* bias, float* out, int rows, int inner,
                        int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += x[i / cols * inner + k] * turned[k * cols + i % cols];
  out[i] = fmaxf(sum + bias[i % cols], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  const auto turned = weight.t().contiguous();
  auto out = torch::empty({rows, cols}, x.options());
  product<<<(rows * cols + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.contiguous().data_ptr<float>(), turned.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), rows,
      inner, cols);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
