// Lanes 128 bytes apart in a piece that the L1 holds: 32 sectors a request. The virtual GPU has no L1 to hold it.
// cuda: l1 1081344
#include <torch/extension.h>

__global__ void apart(const float* x, float* y) {
  const float* piece = x + blockIdx.x % 132 * 8192 + threadIdx.x % 32 * 32;
  float sum = 0;
  for (int round = 0; round < 500; ++round)
    for (int i = 0; i < 32; ++i) sum += __ldca(piece + (i + round + threadIdx.x / 32) % 32 + threadIdx.x / 32 * 1024);
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({132 * 4 * 256}, x.options());
  apart<<<132 * 4, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
