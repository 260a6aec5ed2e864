// CUB and libcu++ inside a kernel.
#include <cub/block/block_reduce.cuh>
#include <cuda/std/limits>
#include <torch/extension.h>

__global__ void sums(const float* x, float* y, int n) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage scratch;
  float part = 0;
  for (int i = threadIdx.x; i < n; i += 128) part += x[blockIdx.x * n + i];
  const float sum = Reduce(scratch).Sum(part);
  if (threadIdx.x == 0) y[blockIdx.x] = fminf(sum, cuda::std::numeric_limits<float>::max());
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  sums<<<x.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
