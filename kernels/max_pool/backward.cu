// Gradient of max pooling, gathered: an input asks the windows over it whether they chose it, and every gradient is
// written once. Windows of 2 by 2 that tile the image, and of 3 by 3 with stride 2, are streams of 16-byte packs.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#ifndef BLOCK
#define BLOCK 256
#endif
// 2 by 2: pairs of windows a thread has in flight, where there is enough work.
// tune: UNROLL = 2 [1, 2, 4]
#ifndef UNROLL
#define UNROLL 2
#endif
// 3 by 3: rows of windows a thread has; it also reads the row below them, under which its last inputs lie.
// tune: ROWS = 4 [2, 4, 7]
#ifndef ROWS
#define ROWS 4
#endif
// Fewer threads than this: one pair, or one row, a thread, so that the work reaches every multiprocessor.
#ifndef BIG_THREADS
#define BIG_THREADS 200000
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

// 2 by 2 with stride 2, height even, width a multiple of four. One thread Unroll times two neighbouring windows and
// the eight inputs under them; `across` pairs make a row of windows, `area` a plane of them.
template <int Unroll>
__global__ void __launch_bounds__(BLOCK) scatter_pairs(const float* grad_out, const int64_t* indices, float* grad_x,
                                                       unsigned pairs, unsigned across, unsigned area) {
  const unsigned first = blockIdx.x * (BLOCK * Unroll) + threadIdx.x;
  float2 grads[Unroll];
  longlong2 chosen[Unroll];
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < pairs) {
      chosen[k] = reinterpret_cast<const longlong2*>(indices)[i];
      grads[k] = reinterpret_cast<const float2*>(grad_out)[i];
    }
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < pairs) {
      const unsigned own = i % area, place = (own + own / across * across) * 4;  // row * 2 * width + column
      float* to = grad_x + (static_cast<int64_t>(i) + i / across * across) * 4;
      const unsigned left = static_cast<unsigned>(chosen[k].x) - place, right = static_cast<unsigned>(chosen[k].y) - place;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const unsigned base = r * across * 4;
        __stcs(reinterpret_cast<float4*>(to + base),
               make_float4(left == base ? grads[k].x : 0.0f, left == base + 1 ? grads[k].x : 0.0f,
                           right == base + 2 ? grads[k].y : 0.0f, right == base + 3 ? grads[k].y : 0.0f));
      }
    }
}

// Three neighbouring windows of one row: the gradient of each and the place it chose, -1 where there is no window. A
// thread reads the first two; the third is its right neighbour's first, or read by a last lane, who has no neighbour.
struct Windows {
  float grad[3];
  int place[3];
};

__device__ Windows windows_at(const float* grads, const int64_t* indices, bool inside, bool asks) {
  Windows w = {{0.0f, 0.0f, 0.0f}, {-1, -1, -1}};
  if (inside) {
    const float2 grad = *reinterpret_cast<const float2*>(grads);
    const longlong2 place = *reinterpret_cast<const longlong2*>(indices);
    w.grad[0] = grad.x, w.grad[1] = grad.y;
    w.place[0] = static_cast<int>(place.x), w.place[1] = static_cast<int>(place.y);
  }
  if (inside && asks) w.grad[2] = grads[2], w.place[2] = static_cast<int>(indices[2]);
  return w;
}

__device__ void ask_neighbour(Windows& w, bool ends) {
  const float grad = __shfl_down_sync(0xffffffffu, w.grad[0], 1);
  const int place = __shfl_down_sync(0xffffffffu, w.place[0], 1);
  if (threadIdx.x % 32 != 31) w.grad[2] = grad, w.place[2] = ends ? -1 : place;
}

// What the windows of one row give to the four inputs from `place` on.
__device__ void gather(const Windows& w, int place, float (&sums)[4]) {
  sums[0] += w.place[0] == place ? w.grad[0] : 0.0f;
  sums[1] += w.place[0] == place + 1 ? w.grad[0] : 0.0f;
  sums[1] += w.place[1] == place + 1 ? w.grad[1] : 0.0f;
  sums[2] += w.place[1] == place + 2 ? w.grad[1] : 0.0f;
  sums[3] += w.place[1] == place + 3 ? w.grad[1] : 0.0f;
  sums[3] += w.place[2] == place + 3 ? w.grad[2] : 0.0f;
}

// 3 by 3 with stride 2 and padding 1, height even, width a multiple of four. One thread four columns of inputs, of
// 2 * Rows rows: an even row is under one row of windows, an odd row under two. All windows are in flight at once.
// Threads past the end stay for the shuffles.
template <int Rows>
__global__ void __launch_bounds__(BLOCK)
    gather_strips(const float* grad_out, const int64_t* indices, float* grad_x, Shape s, unsigned strips) {
  const unsigned across = s.width / 4, bands = (s.out_height + Rows - 1) / Rows;
  const unsigned i = blockIdx.x * BLOCK + threadIdx.x, pair = i % across, band = i / across % bands;
  const bool there = i < strips, ends = pair == across - 1, asks = threadIdx.x % 32 == 31 && !ends;
  const int64_t plane = i / across / bands;
  const int row = band * Rows, left = there ? s.out_height - row : 0;  // rows of windows that are left from here on
  const int64_t window = (plane * s.out_height + row) * s.out_width + pair * 2;
  float* to = grad_x + (plane * s.height + 2 * row) * s.width + pair * 4;
  Windows windows[Rows + 1];
#pragma unroll
  for (int r = 0; r <= Rows; ++r)
    windows[r] = windows_at(grad_out + window + r * s.out_width, indices + window + r * s.out_width, r < left, asks);
#pragma unroll
  for (int r = 0; r <= Rows; ++r) ask_neighbour(windows[r], ends);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int place = 2 * (row + r) * s.width + pair * 4;
    float upper[4] = {}, lower[4] = {};
    gather(windows[r], place, upper);
    gather(windows[r], place + s.width, lower);
    gather(windows[r + 1], place + s.width, lower);
    if (r < left) {
      float* at = to + 2 * r * s.width;
      __stcs(reinterpret_cast<float4*>(at), make_float4(upper[0], upper[1], upper[2], upper[3]));
      __stcs(reinterpret_cast<float4*>(at + s.width), make_float4(lower[0], lower[1], lower[2], lower[3]));
    }
  }
}

// Any window, one thread an input; `across` blocks cover a plane. Stride 0: known when it runs.
template <int Stride>
__global__ void __launch_bounds__(BLOCK)
    gather_single(const float* grad_out, const int64_t* indices, float* grad_x, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across, first = plane * s.out_height * s.out_width;
  const int place = blockIdx.x % across * BLOCK + threadIdx.x, area = s.height * s.width;
  if (place >= area) return;
  const int stride = Stride > 0 ? Stride : s.stride;
  const int row = place / s.width + s.padding, col = place % s.width + s.padding;
  const int first_row = row < s.kernel ? 0 : (row - s.kernel) / stride + 1;
  const int first_col = col < s.kernel ? 0 : (col - s.kernel) / stride + 1;
  float sum = 0.0f;
  for (int r = first_row; r <= min(row / stride, s.out_height - 1); ++r)
    for (int c = first_col; c <= min(col / stride, s.out_width - 1); ++c)
      if (static_cast<int>(indices[first + r * s.out_width + c]) == place) sum += grad_out[first + r * s.out_width + c];
  grad_x[plane * area + place] = sum;
}

void launch(const float* grad_out, const int64_t* indices, float* grad_x, Shape s) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto blocks = [](int64_t count) { return static_cast<unsigned>((count + BLOCK - 1) / BLOCK); };
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const int64_t windows = static_cast<int64_t>(s.out_height) * s.out_width, outputs = s.planes * windows;
  const bool packs = aligned(grad_out) && aligned(indices) && aligned(grad_x) && s.width % 4 == 0 &&
                     s.height % 2 == 0 && s.stride == 2 && outputs < (1ll << 32);
  if (s.planes * s.height * s.width == 0) return;
  if (packs && s.kernel == 2 && s.padding == 0) {
    const int64_t pairs = outputs / 2;
    const int unroll = pairs / UNROLL >= BIG_THREADS ? UNROLL : 1;
    const auto run = unroll == UNROLL ? scatter_pairs<UNROLL> : scatter_pairs<1>;
    run<<<blocks((pairs + unroll - 1) / unroll), BLOCK, 0, stream>>>(
        grad_out, indices, grad_x, static_cast<unsigned>(pairs), static_cast<unsigned>(s.width / 4),
        static_cast<unsigned>(windows / 2));
  } else if (packs && s.kernel == 3 && s.padding == 1) {
    const auto strips = [&](int64_t rows) { return s.planes * ((s.out_height + rows - 1) / rows) * (s.width / 4); };
    const bool big = strips(ROWS) >= BIG_THREADS;
    const int64_t count = strips(big ? ROWS : 1);
    const auto run = big ? gather_strips<ROWS> : gather_strips<1>;
    run<<<blocks(count), BLOCK, 0, stream>>>(grad_out, indices, grad_x, s, static_cast<unsigned>(count));
  } else {
    const unsigned across = blocks(static_cast<int64_t>(s.height) * s.width);
    const auto run = s.stride == 1 ? gather_single<1> : s.stride == 2 ? gather_single<2> : gather_single<0>;
    run<<<static_cast<unsigned>(s.planes) * across, BLOCK, 0, stream>>>(grad_out, indices, grad_x, s, across);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding,
                       torch::Tensor indices) {
  TORCH_CHECK(grad_out.is_contiguous() && indices.is_contiguous(), "grad_out and indices must be contiguous");
  auto grad_x = torch::empty_like(x);
  launch(grad_out.data_ptr<float>(), indices.data_ptr<int64_t>(), grad_x.data_ptr<float>(),
         shape_of(x, kernel, stride, padding));
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
