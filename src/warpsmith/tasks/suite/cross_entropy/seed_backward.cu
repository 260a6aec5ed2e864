// Gradient of the mean cross-entropy from each row's log-sum-exp, one block a row.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a row is shared. 0: a block a row. 1: a warp a row. 2: several blocks a row, each thread one step of it.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512, 1024]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once, where the row's length allows.
// tune: VEC = 1 [1, 2, 4]
#ifndef VEC
#define VEC 1
#endif

namespace {

constexpr int kTeam = STRATEGY == 1 ? 32 : BLOCK;  // threads that share a row
constexpr int64_t kMostBlocks = 65535;             // along a grid's second axis

template <int Vec>
struct alignas(sizeof(float) * Vec) Pack {
  float at[Vec];
};

template <int Vec>
__global__ void cross_entropy_backward(const float* grad_out, const float* logits, const int64_t* targets,
                                       const float* lse, float* grad_logits, int64_t rows, int64_t classes) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / kTeam) + threadIdx.x / kTeam;
  if (row >= rows) return;
  const int64_t start = row * classes, target = targets[row], stride = static_cast<int64_t>(gridDim.y) * kTeam * Vec;
  const float scale = *grad_out / static_cast<float>(rows), total = lse[row];
  for (int64_t i = (blockIdx.y * kTeam + threadIdx.x % kTeam) * Vec; i < classes; i += stride) {
    auto values = *reinterpret_cast<const Pack<Vec>*>(logits + start + i);
#pragma unroll
    for (int j = 0; j < Vec; ++j) {
      const float share = expf(values.at[j] - total);
      values.at[j] = (i + j == target ? share - 1.0f : share) * scale;
    }
    *reinterpret_cast<Pack<Vec>*>(grad_logits + start + i) = values;
  }
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor logits, torch::Tensor targets, torch::Tensor lse) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto grad_logits = torch::empty_like(logits);
  const bool packed = classes % VEC == 0;
  const auto kernel = packed ? cross_entropy_backward<VEC> : cross_entropy_backward<1>;
  const int64_t step = BLOCK * (packed ? VEC : 1);
  const int64_t across = STRATEGY == 2 ? std::min((classes + step - 1) / step, kMostBlocks) : 1;
  const dim3 grid(static_cast<unsigned>((rows + BLOCK / kTeam - 1) / (BLOCK / kTeam)), static_cast<unsigned>(across));
  kernel<<<grid, BLOCK, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_out.data_ptr<float>(), logits.data_ptr<float>(), targets.data_ptr<int64_t>(), lse.data_ptr<float>(),
      grad_logits.data_ptr<float>(), rows, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_logits;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
