// Multiply-adds in registers, four chains a thread.
// cuda: issue 1024 ROUNDS=20000
// vgpu: issue 1024 ROUNDS=400
#include <torch/extension.h>

__global__ void chains(const float* x, float* y) {
  float a = x[threadIdx.x], b = a + 1, c = a + 2, d = a + 3;
  for (int i = 0; i < ROUNDS; ++i) {
    a = a * 0.999f + 0.5f;
    b = b * 0.999f + 0.5f;
    c = c * 0.999f + 0.5f;
    d = d * 0.999f + 0.5f;
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({132 * 8 * 256}, x.options());
  chains<<<132 * 8, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
