// Max pooling, one thread an output.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How outputs are shared out. 0: a flat index over all of them. 1: a block has some of one plane, found with 32-bit
// numbers. 2: windows of 2 by 2 that tile the plane: a thread has two of them and reads four columns at once; else
// as 1.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Whether windows of 2 by 2 and of 3 by 3 have kernels of their own, their loops unrolled.
// tune: FIXED = 0 [0, 1]
#ifndef FIXED
#define FIXED 0
#endif

namespace {

struct Shape {
  int64_t planes;
  int height, width, out_height, out_width, kernel, stride, padding;
};

Shape shape_of(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  const auto extent = [&](int64_t size) { return static_cast<int>((size + 2 * padding - kernel) / stride + 1); };
  return {x.size(0) * x.size(1), static_cast<int>(x.size(2)), static_cast<int>(x.size(3)), extent(x.size(2)),
          extent(x.size(3)), static_cast<int>(kernel), static_cast<int>(stride), static_cast<int>(padding)};
}

// As torch: not-a-number wins.
__device__ float larger(float largest, float value) { return value > largest || isnan(value) ? value : largest; }

// The largest of one window; Kernel 0: of any size.
template <int Kernel>
__device__ float largest_of(const float* plane, Shape s, int out_row, int out_col) {
  const int row = out_row * s.stride - s.padding, col = out_col * s.stride - s.padding;
  float largest = -INFINITY;
  if constexpr (Kernel > 0) {
#pragma unroll
    for (int r = 0; r < Kernel; ++r)
#pragma unroll
      for (int c = 0; c < Kernel; ++c)
        if (row + r >= 0 && row + r < s.height && col + c >= 0 && col + c < s.width)
          largest = larger(largest, plane[(row + r) * s.width + col + c]);
  } else {
    for (int r = max(row, 0); r < min(row + s.kernel, s.height); ++r)
      for (int c = max(col, 0); c < min(col + s.kernel, s.width); ++c)
        largest = larger(largest, plane[r * s.width + c]);
  }
  return largest;
}

template <int Kernel>
__global__ void max_pool(const float* x, float* out, Shape s) {
  const int64_t count = s.planes * s.out_height * s.out_width, stride = static_cast<int64_t>(gridDim.x) * BLOCK;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < count; i += stride) {
    const int col = static_cast<int>(i % s.out_width), row = static_cast<int>(i / s.out_width % s.out_height);
    const float* plane = x + i / (static_cast<int64_t>(s.out_width) * s.out_height) * s.height * s.width;
    out[i] = largest_of<Kernel>(plane, s, row, col);
  }
}

// `across` blocks cover a plane.
template <int Kernel>
__global__ void max_pool_plane(const float* x, float* out, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, area = s.out_height * s.out_width;
  const float* from = x + plane * s.height * s.width;
  if (i < area) out[plane * area + i] = largest_of<Kernel>(from, s, i / s.out_width, i % s.out_width);
}

// Two windows of 2 by 2 a thread; the width is a multiple of four.
__global__ void max_pool_pairs(const float* x, float* out, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, pairs = s.width / 4;
  if (i >= s.out_height * pairs) return;
  const float* first = x + plane * s.height * s.width + i / pairs * 2 * s.width + i % pairs * 4;
  const float4 upper = *reinterpret_cast<const float4*>(first);
  const float4 lower = *reinterpret_cast<const float4*>(first + s.width);
  const float left = larger(larger(larger(larger(-INFINITY, upper.x), upper.y), lower.x), lower.y);
  const float right = larger(larger(larger(larger(-INFINITY, upper.z), upper.w), lower.z), lower.w);
  reinterpret_cast<float2*>(out + plane * s.out_height * s.out_width)[i] = make_float2(left, right);
}

template <int Kernel>
void launch(const float* x, float* out, Shape s) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int area = s.out_height * s.out_width;
  const auto blocks = [](int64_t count) { return static_cast<unsigned>((count + BLOCK - 1) / BLOCK); };
  if (STRATEGY == 2 && s.kernel == 2 && s.stride == 2 && s.padding == 0 && s.width % 4 == 0) {
    const unsigned across = blocks(area / 2);
    max_pool_pairs<<<static_cast<unsigned>(s.planes) * across, BLOCK, 0, stream>>>(x, out, s, across);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else if constexpr (STRATEGY > 0) {
    const unsigned across = blocks(area);
    max_pool_plane<Kernel><<<static_cast<unsigned>(s.planes) * across, BLOCK, 0, stream>>>(x, out, s, across);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    max_pool<Kernel><<<std::min(blocks(s.planes * area), 1u << 20), BLOCK, 0, stream>>>(x, out, s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  const Shape s = shape_of(x, kernel, stride, padding);
  auto out = torch::empty({x.size(0), x.size(1), s.out_height, s.out_width}, x.options());
  const auto run = FIXED && kernel == 2 ? launch<FIXED * 2> : FIXED && kernel == 3 ? launch<FIXED * 3> : launch<0>;
  run(x.data_ptr<float>(), out.data_ptr<float>(), s);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
