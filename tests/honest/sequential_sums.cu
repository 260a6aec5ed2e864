// control: a plain sequential sum in float32
// task: softmax
// direction: forward
// device: vgpu
// One thread a row, one term after the other: the simplest right kernel there is.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

// One thread a row.
template <typename T>
__global__ void softmax(const T* x, T* out, int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float most = -INFINITY, sum = 0.0f;
  for (int i = row * cols; i < (row + 1) * cols; ++i) most = fmaxf(most, static_cast<float>(x[i]));
  for (int i = row * cols; i < (row + 1) * cols; ++i) sum += expf(static_cast<float>(x[i]) - most);
  for (int i = row * cols; i < (row + 1) * cols; ++i)
    out[i] = static_cast<T>(expf(static_cast<float>(x[i]) - most) / sum);
}

void launch(torch::Tensor x, torch::Tensor out, cudaStream_t stream) {
  const int cols = x.size(-1), rows = x.numel() / cols;
  EACH_TYPE(x, [&] {
    softmax<<<(rows + 31) / 32, 32, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, cols);
  });
}

torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch(x, out, at::cuda::getCurrentCUDAStream());
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
