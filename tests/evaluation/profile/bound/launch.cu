// One block that writes a line of memory: over before a launch has paid off.
// cuda: latency 32
// vgpu: latency 32
#include <torch/extension.h>

__global__ void one(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  one<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
