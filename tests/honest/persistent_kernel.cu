// control: a persistent kernel that ends in the call
// task: linear_relu
// direction: forward
// device: vgpu
// As many blocks as the GPU has multiprocessors take tiles from a counter until there are none.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>

namespace {

__global__ void worker(const float* x, const float* weight, const float* bias, float* out, int rows, int inner,
    int cols,
                       int* next) {
  __shared__ int tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 32);
    __syncthreads();
    const int i = tile + threadIdx.x;
    __syncthreads();
    if (i - static_cast<int>(threadIdx.x) >= rows * cols) return;
    if (i >= rows * cols) continue;
    float sum = 0.0f;
    for (int k = 0; k < inner; ++k) sum += x[i / cols * inner + k] * weight[i % cols * inner + k];
    out[i] = fmaxf(sum + bias[i % cols], 0.0f);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  auto out = torch::empty({rows, cols}, x.options());
  auto next = torch::zeros({1}, x.options().dtype(torch::kInt32));
  const int blocks = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, 16);
  worker<<<blocks, 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                                             bias.data_ptr<float>(), out.data_ptr<float>(), rows, inner,
                                                             cols, next.data_ptr<int>());
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
