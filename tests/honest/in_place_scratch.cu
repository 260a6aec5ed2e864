// control: an in-place pattern on its own scratch
// task: llama_rmsnorm
// direction: forward
// device: vgpu
// Squares are written to scratch and folded in place, half onto half, in as many launches as it takes.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename T>
__global__ void squares(const T* x, float* scratch, int rows, int cols, int width) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, col = i % width;
  if (i >= rows * width) return;
  const float value = col < cols ? static_cast<float>(x[i / width * cols + col]) : 0.0f;
  scratch[i] = value * value;
}

__global__ void fold(float* scratch, int rows, int width, int half) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * half) scratch[i / half * width + i % half] += scratch[i / half * width + i % half + half];
}

template <typename T>
__global__ void scale(const T* x, const T* weight, const float* scratch, T* out, int rows, int cols, int width,
    float eps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const float by = rsqrtf(scratch[i / cols * width] / cols + eps);
  out[i] = static_cast<T>(static_cast<float>(x[i]) * by * static_cast<float>(weight[i % cols]));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  const int cols = x.size(-1), rows = x.numel() / cols;
  int width = 1;
  while (width < cols) width *= 2;
  auto out = torch::empty_like(x);
  auto scratch = torch::empty({rows, width}, x.options().dtype(torch::kFloat));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const auto blocks = [](int count) { return (count + 255) / 256; };
  EACH_TYPE(x, [&] {
    squares<<<blocks(rows * width), 256, 0,
        stream>>>(x.data_ptr<scalar_t>(), scratch.data_ptr<float>(), rows, cols, width);
    for (int half = width / 2; half > 0; half /= 2)
      fold<<<blocks(rows * half), 256, 0, stream>>>(scratch.data_ptr<float>(), rows, width, half);
    scale<<<blocks(rows * cols), 256, 0, stream>>>(x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
                                                   scratch.data_ptr<float>(), out.data_ptr<scalar_t>(), rows, cols,
                                                       width,
                                                   static_cast<float>(eps));
  });
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
