// One kernel whose PTX the tests replace.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

extern "C" __global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.f;
}
torch::Tensor forward(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  twice<<<1, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), int(x.numel()));
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
