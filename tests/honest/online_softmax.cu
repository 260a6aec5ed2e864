// control: softmax in one pass, a warp a row
// task: softmax
// direction: forward
// device: vgpu
// Maximum and sum are carried along together and merged by shuffles; exponentials are powers of two.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename T>
__global__ void softmax(const T* x, T* out, int rows, int cols) {
  constexpr float kLog2e = 1.4426950408889634f;
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float most = -1e30f, sum = 0.0f;
  for (int i = lane; i < cols; i += 32) {
    const float value = static_cast<float>(x[row * cols + i]), next = fmaxf(most, value);
    sum = sum * exp2f((most - next) * kLog2e) + exp2f((value - next) * kLog2e);
    most = next;
  }
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, most, step), more = __shfl_xor_sync(0xffffffffu, sum, step);
    const float next = fmaxf(most, other);
    sum = sum * exp2f((most - next) * kLog2e) + more * exp2f((other - next) * kLog2e);
    most = next;
  }
  for (int i = lane; i < cols; i += 32)
    out[row * cols + i] = static_cast<T>(exp2f((static_cast<float>(x[row * cols + i]) - most) * kLog2e) / sum);
}

torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int cols = x.size(-1), rows = x.numel() / cols;
  EACH_TYPE(x, [&] {
    softmax<<<(rows + 3) / 4, 128, 0,
        at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
                                                                        rows, cols);
  });
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
