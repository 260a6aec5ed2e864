// Gradient of max pooling, one thread an input: it asks the windows over it whether they chose it.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

struct Shape {
  int64_t planes;
  int height, width, out_height, out_width, kernel, stride, padding;
};

Shape shape_of(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  const auto extent = [&](int64_t size) { return static_cast<int>((size + 2 * padding - kernel) / stride + 1); };
  return {x.size(0) * x.size(1), static_cast<int>(x.size(2)), static_cast<int>(x.size(3)), extent(x.size(2)),
          extent(x.size(3)), static_cast<int>(kernel), static_cast<int>(stride), static_cast<int>(padding)};
}

__global__ void max_pool_backward(const float* grad_out, const int64_t* indices, float* grad_x, Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.planes * area;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64_t plane = i / area, place = i % area;
    const int row = static_cast<int>(place / s.width) + s.padding, col = static_cast<int>(place % s.width) + s.padding;
    const int first_row = row < s.kernel ? 0 : (row - s.kernel) / s.stride + 1;
    const int first_col = col < s.kernel ? 0 : (col - s.kernel) / s.stride + 1;
    float sum = 0.0f;
    for (int r = first_row; r <= min(row / s.stride, s.out_height - 1); ++r)
      for (int c = first_col; c <= min(col / s.stride, s.out_width - 1); ++c) {
        const int64_t window = (plane * s.out_height + r) * s.out_width + c;
        if (indices[window] == place) sum += grad_out[window];
      }
    grad_x[i] = sum;
  }
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding,
                       torch::Tensor indices) {
  TORCH_CHECK(grad_out.is_contiguous() && indices.is_contiguous(), "grad_out and indices must be contiguous");
  const Shape s = shape_of(x, kernel, stride, padding);
  auto grad_x = torch::empty_like(x);
  max_pool_backward<<<blocks_for(x.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_out.data_ptr<float>(), indices.data_ptr<int64_t>(), grad_x.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
