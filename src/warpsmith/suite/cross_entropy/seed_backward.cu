// Gradient of the mean cross-entropy from each row's log-sum-exp, one block a row.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kThreads = 256;

__global__ void cross_entropy_backward(const float* grad_out, const float* logits, const int64_t* targets,
                                       const float* lse, float* grad_logits, int64_t rows, int64_t classes) {
  const int64_t start = blockIdx.x * classes, target = targets[blockIdx.x];
  const float scale = *grad_out / static_cast<float>(rows), total = lse[blockIdx.x];
  for (int64_t i = threadIdx.x; i < classes; i += kThreads) {
    const float share = expf(logits[start + i] - total);
    grad_logits[start + i] = (i == target ? share - 1.0f : share) * scale;
  }
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor logits, torch::Tensor targets, torch::Tensor lse) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto grad_logits = torch::empty_like(logits);
  cross_entropy_backward<<<static_cast<unsigned>(rows), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_out.data_ptr<float>(), logits.data_ptr<float>(), targets.data_ptr<int64_t>(), lse.data_ptr<float>(),
      grad_logits.data_ptr<float>(), rows, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_logits;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
