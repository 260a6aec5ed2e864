// Max pooling, one thread an output.
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

__global__ void max_pool(const float* x, float* out, Shape s) {
  const int64_t count = s.planes * s.out_height * s.out_width, stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int col = static_cast<int>(i % s.out_width) * s.stride - s.padding;
    const int row = static_cast<int>(i / s.out_width % s.out_height) * s.stride - s.padding;
    const float* plane = x + i / (static_cast<int64_t>(s.out_width) * s.out_height) * s.height * s.width;
    float largest = -INFINITY;
    for (int r = max(row, 0); r < min(row + s.kernel, s.height); ++r)
      for (int c = max(col, 0); c < min(col + s.kernel, s.width); ++c) {
        const float value = plane[static_cast<int64_t>(r) * s.width + c];
        if (value > largest || isnan(value)) largest = value;  // as torch: not-a-number wins
      }
    out[i] = largest;
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  const Shape s = shape_of(x, kernel, stride, padding);
  auto out = torch::empty({x.size(0), x.size(1), s.out_height, s.out_width}, x.options());
  max_pool<<<blocks_for(out.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                                       out.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
