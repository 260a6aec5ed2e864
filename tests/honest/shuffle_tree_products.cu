// control: a linear layer, a warp a result, from the last term to the first
// task: linear
// direction: forward
// device: vgpu
// Lanes take every 32nd term from the end on; a tree of shuffles adds what they have, and results are made from the last
// one to the first.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename T>
__global__ void product(const T* x, const T* weight, const T* bias, T* out, int64_t count, int inner, int cols) {
  const int64_t i = count - 1 - (blockIdx.x * static_cast<int64_t>(blockDim.x / 32) + threadIdx.x / 32);
  if (i < 0) return;
  const int64_t row = i / cols, col = i % cols;
  const int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int k = inner - 1 - lane; k >= 0; k -= 32)
    sum = fmaf(static_cast<float>(x[row * inner + k]), static_cast<float>(weight[col * inner + k]), sum);
  for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) out[i] = static_cast<T>(sum + static_cast<float>(bias[col]));
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int inner = x.size(1), cols = weight.size(0);
  auto out = torch::empty({x.size(0), cols}, x.options());
  const int64_t count = out.numel();
  if (count == 0) return out;
  EACH_TYPE(x, [&] {
    product<<<static_cast<unsigned>((count + 3) / 4), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), count,
        inner, cols);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
