// A copy in 16-byte pieces: every byte comes from memory and goes there.
// cuda: dram 67108864
// vgpu: dram 8388608
#include <torch/extension.h>

__global__ void copy(const float4* __restrict__ x, float4* __restrict__ y, long pieces) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < pieces; i += (long)gridDim.x * blockDim.x) y[i] = x[i];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  copy<<<132 * 16, 256>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), x.numel() / 4);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
