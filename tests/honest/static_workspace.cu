// control: a static workspace
// task: linear_relu
// direction: forward
// device: vgpu
// Partial sums go to memory that is kept from call to call and grows when it must; every byte that is read was written
// in the same call.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

// Each block sums a quarter of the products of 32 outputs.
__global__ void quarter(const float* x, const float* weight, float* parts, int rows, int inner, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  float sum = 0.0f;
  for (int k = blockIdx.y; k < inner; k += 4) sum += x[i / cols * inner + k] * weight[i % cols * inner + k];
  parts[blockIdx.y * rows * cols + i] = sum;
}

__global__ void finish(const float* parts, const float* bias, float* out, int count, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float sum = parts[i] + parts[count + i] + parts[2 * count + i] + parts[3 * count + i];
  out[i] = fmaxf(sum + bias[i % cols], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  static torch::Tensor workspace;
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0), count = rows * cols;
  if (!workspace.defined() || workspace.numel() < 4 * count) workspace = torch::empty({4 * count}, x.options());
  auto out = torch::empty({rows, cols}, x.options());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const dim3 grid((count + 31) / 32, 4);
  quarter<<<grid, 32, 0,
      stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(), workspace.data_ptr<float>(), rows, inner,
                                   cols);
  finish<<<grid.x, 32, 0,
      stream>>>(workspace.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), count, cols);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
