// control: Kahan sums
// task: llama_rmsnorm
// direction: forward
// device: vgpu
// The sum of squares with a compensation term, which a compiler must not optimize away.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename T>
__global__ void rmsnorm(const T* x, const T* weight, T* out, int rows, int cols, float eps) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f, lost = 0.0f;
  for (int i = 0; i < cols; ++i) {
    const float value = static_cast<float>(x[row * cols + i]);
    const float term = __fsub_rn(__fmul_rn(value, value), lost), next = __fadd_rn(sum, term);
    lost = __fsub_rn(__fsub_rn(next, sum), term);
    sum = next;
  }
  const float scale = rsqrtf(sum / cols + eps);
  for (int i = 0; i < cols; ++i)
    out[row * cols + i] = static_cast<T>(static_cast<float>(x[row * cols + i]) * scale * static_cast<float>(weight[i]));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  auto out = torch::empty_like(x);
  const int cols = x.size(-1), rows = x.numel() / cols;
  EACH_TYPE(x, [&] {
    rmsnorm<<<(rows + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, cols,
            static_cast<float>(eps));
  });
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
