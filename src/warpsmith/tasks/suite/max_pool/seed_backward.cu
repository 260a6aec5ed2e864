// Gradient of max pooling, one thread an input: it asks the windows over it whether they chose it.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How inputs are shared out. 0: a flat index over all of them. 1: a block has some of one plane, found with 32-bit
// numbers. 2: windows of 2 by 2 that tile the plane: a thread has two of them and writes four columns at once; else as
// 1.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Whether strides of 1 and of 2 have kernels of their own, without divisions.
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

// The gradient at one input of a plane; `grads` and `indices` are the plane's first windows. Stride 0: any.
template <int Stride>
__device__ float gathered(const float* grads, const int64_t* indices, Shape s, int place) {
  const int stride = Stride > 0 ? Stride : s.stride;
  const int row = place / s.width + s.padding, col = place % s.width + s.padding;
  const int first_row = row < s.kernel ? 0 : (row - s.kernel) / stride + 1;
  const int first_col = col < s.kernel ? 0 : (col - s.kernel) / stride + 1;
  float sum = 0.0f;
  for (int r = first_row; r <= min(row / stride, s.out_height - 1); ++r)
    for (int c = first_col; c <= min(col / stride, s.out_width - 1); ++c)
      if (indices[r * s.out_width + c] == place) sum += grads[r * s.out_width + c];
  return sum;
}

template <int Stride>
__global__ void max_pool_backward(const float* grad_out, const int64_t* indices, float* grad_x, Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.planes * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < count; i += step) {
    const int64_t first = i / area * s.out_height * s.out_width;
    grad_x[i] = gathered<Stride>(grad_out + first, indices + first, s, static_cast<int>(i % area));
  }
}

// `across` blocks cover a plane.
template <int Stride>
__global__ void plane_gradient(const float* grad_out, const int64_t* indices, float* grad_x, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across, first = plane * s.out_height * s.out_width;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, area = s.height * s.width;
  if (i < area) grad_x[plane * area + i] = gathered<Stride>(grad_out + first, indices + first, s, i);
}

// Two windows of 2 by 2 a thread; the width is a multiple of four, the height of two.
__global__ void pair_gradient(const float* grad_out, const int64_t* indices, float* grad_x, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across, windows = static_cast<int64_t>(s.out_height) * s.out_width / 2;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, pairs = s.width / 4;
  if (i >= windows) return;
  const float2 grad = reinterpret_cast<const float2*>(grad_out)[plane * windows + i];
  const longlong2 chosen = reinterpret_cast<const longlong2*>(indices)[plane * windows + i];
  const int first = i / pairs * 2 * s.width + i % pairs * 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int place = first + r * s.width;
    const float4 row = make_float4(chosen.x == place ? grad.x : 0.0f, chosen.x == place + 1 ? grad.x : 0.0f,
                                   chosen.y == place + 2 ? grad.y : 0.0f, chosen.y == place + 3 ? grad.y : 0.0f);
    *reinterpret_cast<float4*>(grad_x + plane * s.height * s.width + place) = row;
  }
}

template <int Stride>
void launch(const float* grad_out, const int64_t* indices, float* grad_x, Shape s) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t area = static_cast<int64_t>(s.height) * s.width;
  const auto blocks = [](int64_t count) { return static_cast<unsigned>((count + BLOCK - 1) / BLOCK); };
  const bool tiled = s.kernel == 2 && s.stride == 2 && s.padding == 0 && s.width % 4 == 0 && s.height % 2 == 0;
  const unsigned across = blocks(STRATEGY == 2 && tiled ? area / 8 : area);
  const unsigned all = static_cast<unsigned>(s.planes) * across;
  if (STRATEGY == 2 && tiled) {
    pair_gradient<<<all, BLOCK, 0, stream>>>(grad_out, indices, grad_x, s, across);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else if constexpr (STRATEGY > 0) {
    plane_gradient<Stride><<<all, BLOCK, 0, stream>>>(grad_out, indices, grad_x, s, across);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    const unsigned some = std::min(blocks(s.planes * area), 1u << 20);
    max_pool_backward<Stride><<<some, BLOCK, 0, stream>>>(grad_out, indices, grad_x, s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding,
                       torch::Tensor indices) {
  TORCH_CHECK(grad_out.is_contiguous() && indices.is_contiguous(), "grad_out and indices must be contiguous");
  auto grad_x = torch::empty_like(x);
  const auto run = FIXED && stride == 1 ? launch<FIXED> : FIXED && stride == 2 ? launch<FIXED * 2> : launch<0>;
  run(grad_out.data_ptr<float>(), indices.data_ptr<int64_t>(), grad_x.data_ptr<float>(),
      shape_of(x, kernel, stride, padding));
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
