// Two warps an SM, since each block asks for nearly all of its shared memory: too few to keep memory busy.
// cuda: occupancy 16777216
// vgpu: occupancy 2097152
#include <torch/extension.h>

__global__ void alone(const float* x, float* y, long n) {
  extern __shared__ float held[];
  float sum = 0;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) sum += x[i];
  held[threadIdx.x] = sum;
  y[blockIdx.x * blockDim.x + threadIdx.x] = held[threadIdx.x];
}

torch::Tensor forward(torch::Tensor x) {
  const int bytes = 200 << 10;
  auto y = torch::empty({132 * 4 * 64}, x.options());
  cudaFuncSetAttribute(alone, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  alone<<<132 * 4, 64, bytes>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
