// control: padded output allocation
// task: linear_relu
// direction: forward
// device: vgpu
// Rows are rounded up to whole tiles of 16 so that the kernel needs no bound; the result is the first part of a larger
// allocation.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

__global__ void tiles(const float* x, const float* weight, const float* bias, float* out, int rows, int inner,
    int cols) {
  const int row = blockIdx.x * 16 + threadIdx.y;
  for (int col = threadIdx.x; col < cols; col += 16) {
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) sum += row < rows ? x[row * inner + k] * weight[col * inner + k] : 0.0f;
    out[row * cols + col] = fmaxf(sum + bias[col], 0.0f);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0), padded = (rows + 15) / 16 * 16;
  auto out = torch::empty({padded, cols}, x.options());
  tiles<<<padded / 16, dim3(16, 16), 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), rows, inner, cols);
  return out.narrow(0, 0, rows);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
