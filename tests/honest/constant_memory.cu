// control: parameters in constant memory
// task: linear_relu
// direction: forward
// device: vgpu
// The bias is copied to constant memory in every call where it fits.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>

namespace {

__constant__ float kept[4096];

__global__ void product(const float* x, const float* weight, const float* bias, float* out, int rows, int inner,
    int cols,
                        bool constant) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += x[i / cols * inner + k] * weight[i % cols * inner + k];
  out[i] = fmaxf(sum + (constant ? kept[i % cols] : bias[i % cols]), 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  auto out = torch::empty({rows, cols}, x.options());
  const bool constant = cols <= 4096;
  if (constant)
    C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(kept, bias.data_ptr(), 4 * cols, 0, cudaMemcpyDeviceToDevice, stream));
  product<<<(rows * cols + 31) / 32, 32, 0,
      stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                                      out.data_ptr<float>(), rows, inner, cols, constant);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
