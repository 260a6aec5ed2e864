// control: cudaMemsetAsync on the output, then atomics into it
// task: max_pool
// direction: backward
// device: vgpu
// The gradient is cleared by the runtime and each window adds to the place it chose.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>

namespace {

__global__ void scatter(const float* grad_out, const int64_t* indices, float* grad_x, int windows, int area,
    int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(grad_x + i / windows * area + indices[i], grad_out[i]);
}

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding,
                       torch::Tensor indices) {
  auto grad_x = torch::empty_like(x);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(cudaMemsetAsync(grad_x.data_ptr(), 0, grad_x.nbytes(), stream));
  const int count = grad_out.numel(), windows = grad_out.size(2) * grad_out.size(3), area = x.size(2) * x.size(3);
  scatter<<<(count + 31) / 32, 32, 0, stream>>>(grad_out.data_ptr<float>(), indices.data_ptr<int64_t>(),
                                                grad_x.data_ptr<float>(), windows, area, count);
  return grad_x;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
