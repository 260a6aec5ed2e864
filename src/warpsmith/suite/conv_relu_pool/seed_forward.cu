// Convolution, ReLU and 2 by 2 pooling at once, one thread a pooled output.
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
  int64_t batch, channels, filters;
  int height, width, out_height, out_width, kernel, stride, padding;
};

Shape shape_of(torch::Tensor x, torch::Tensor weight, int64_t stride, int64_t padding) {
  const int64_t kernel = weight.size(2);
  const auto extent = [&](int64_t size) { return static_cast<int>((size + 2 * padding - kernel) / stride + 1); };
  return {x.size(0), x.size(1), weight.size(0), static_cast<int>(x.size(2)), static_cast<int>(x.size(3)),
          extent(x.size(2)), extent(x.size(3)), static_cast<int>(kernel), static_cast<int>(stride),
          static_cast<int>(padding)};
}

// The sum of products at one output of one filter; `image` and `filter` are their first elements.
__device__ float convolved(const float* image, const float* filter, Shape s, int out_row, int out_col) {
  const int row0 = out_row * s.stride - s.padding, col0 = out_col * s.stride - s.padding;
  float sum = 0.0f;
  for (int64_t channel = 0; channel < s.channels; ++channel)
    for (int r = 0; r < s.kernel; ++r) {
      const int row = row0 + r;
      if (row < 0 || row >= s.height) continue;
      for (int c = 0; c < s.kernel; ++c) {
        const int col = col0 + c;
        if (col < 0 || col >= s.width) continue;
        sum += image[(channel * s.height + row) * s.width + col] *
               filter[(channel * s.kernel + r) * s.kernel + c];
      }
    }
  return sum;
}

__global__ void conv_relu_pool(const float* x, const float* weight, const float* bias, float* out, Shape s) {
  const int half_height = s.out_height / 2, half_width = s.out_width / 2;
  const int64_t area = static_cast<int64_t>(half_height) * half_width, count = s.batch * s.filters * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = 2 * static_cast<int>(i % area / half_width), col = 2 * static_cast<int>(i % half_width);
    const int64_t filter = i / area % s.filters, image = i / area / s.filters;
    const float* from = x + image * s.channels * s.height * s.width;
    const float* by = weight + filter * s.channels * s.kernel * s.kernel;
    float largest = 0.0f;  // ReLU: no less than zero
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c) largest = fmaxf(largest, convolved(from, by, s, row + r, col + c) + bias[filter]);
    out[i] = largest;
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x, weight, 1, padding);
  auto out = torch::empty({s.batch, s.filters, s.out_height / 2, s.out_width / 2}, x.options());
  conv_relu_pool<<<blocks_for(out.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
