// Direct convolution, one thread an output; neighbours in a warp share the filter and read along a row.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

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
template <typename scalar_t>
__device__ float convolved(const scalar_t* image, const scalar_t* filter, Shape s, int out_row, int out_col) {
  const int row0 = out_row * s.stride - s.padding, col0 = out_col * s.stride - s.padding;
  float sum = 0.0f;
  for (int64_t channel = 0; channel < s.channels; ++channel)
    for (int r = 0; r < s.kernel; ++r) {
      const int row = row0 + r;
      if (row < 0 || row >= s.height) continue;
      for (int c = 0; c < s.kernel; ++c) {
        const int col = col0 + c;
        if (col < 0 || col >= s.width) continue;
        sum += static_cast<float>(image[(channel * s.height + row) * s.width + col]) *
               static_cast<float>(filter[(channel * s.kernel + r) * s.kernel + c]);
      }
    }
  return sum;
}

template <typename scalar_t>
__global__ void conv2d(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, Shape s) {
  const int64_t area = static_cast<int64_t>(s.out_height) * s.out_width, count = s.batch * s.filters * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = static_cast<int>(i % area / s.out_width), col = static_cast<int>(i % s.out_width);
    const int64_t filter = i / area % s.filters, image = i / area / s.filters;
    const float sum = convolved(x + image * s.channels * s.height * s.width,
                                weight + filter * s.channels * s.kernel * s.kernel, s, row, col);
    out[i] = static_cast<scalar_t>(sum + static_cast<float>(bias[filter]));
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x, weight, stride, padding);
  auto out = torch::empty({s.batch, s.filters, s.out_height, s.out_width}, x.options());
  DISPATCH(x, "conv2d", [&] {
    conv2d<scalar_t><<<blocks_for(out.numel()), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), s);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
