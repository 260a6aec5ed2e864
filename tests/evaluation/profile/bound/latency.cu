// Each address comes from the load before it, one a warp: nothing to do while it is on its way.
// cuda: latency 2097152 STEPS=2000 BLOCKS=8
// vgpu: latency 2097152 STEPS=400 BLOCKS=5
#include <torch/extension.h>

__global__ void chase(const float* x, float* y, unsigned mask) {
  unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 977u & mask;
  for (int i = 0; i < STEPS; ++i) at = (at ^ __float_as_uint(__ldcg(x + at))) & mask;
  y[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({132 * BLOCKS * 128}, x.options());
  chase<<<132 * BLOCKS, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (unsigned)x.numel() - 1);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
