// Max pooling. Windows of 2 by 2 that tile the image, and of 3 by 3 with stride 2, are streams of 16-byte packs read
// once; other windows have one thread an output.
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
// 3 by 3: rows of outputs a thread makes; the row of inputs that two of them share is read once.
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

// As torch: not-a-number wins. One instruction, where fmaxf would drop it.
__device__ float larger(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ float4 pack(const float* from) { return *reinterpret_cast<const float4*>(from); }

// 2 by 2 with stride 2, height even, width a multiple of four: over all planes, the rows of inputs are pairs of rows.
// One thread Unroll times two neighbouring windows; `across` of those pairs make a row of outputs.
template <int Unroll>
__global__ void __launch_bounds__(BLOCK) pool_pairs(const float* x, float* out, unsigned pairs, unsigned across) {
  const unsigned first = blockIdx.x * (BLOCK * Unroll) + threadIdx.x;
  float4 upper[Unroll], lower[Unroll];
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < pairs) {
      const float* from = x + (static_cast<int64_t>(i) + i / across * across) * 4;  // row * 2 * width + column
      upper[k] = pack(from);
      lower[k] = pack(from + static_cast<int64_t>(across) * 4);
    }
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < pairs)
      __stcs(reinterpret_cast<float2*>(out) + i,
             make_float2(larger(larger(upper[k].x, upper[k].y), larger(lower[k].x, lower[k].y)),
                         larger(larger(upper[k].z, upper[k].w), larger(lower[k].z, lower[k].w))));
}

// Four entries of a row and the one before them, which is the left neighbour's last; -infinity where there is none.
struct Piece {
  float4 own;
  float left;
};

// Only the first lane of a warp has no neighbour to ask.
__device__ Piece piece_at(const float* from, bool inside, bool asks) {
  Piece p = {make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY), -INFINITY};
  if (inside) p.own = *reinterpret_cast<const float4*>(from);
  if (inside && asks) p.left = from[-1];
  return p;
}

// Two neighbouring maxima of three.
__device__ float2 row_maxima(const Piece& p, bool begins) {
  const float before = __shfl_up_sync(0xffffffffu, p.own.w, 1);
  const float left = begins ? -INFINITY : threadIdx.x % 32 == 0 ? p.left : before;
  return make_float2(larger(left, larger(p.own.x, p.own.y)), larger(p.own.y, larger(p.own.z, p.own.w)));
}

// 3 by 3 with stride 2 and padding 1, height even, width a multiple of four. One thread two columns of outputs, of Rows
// rows, all of whose inputs it has in flight at once. Threads past the end stay for the shuffles.
template <int Rows>
__global__ void __launch_bounds__(BLOCK) pool_strips(const float* x, float* out, Shape s, unsigned strips) {
  const unsigned across = s.width / 4, bands = (s.out_height + Rows - 1) / Rows;
  const unsigned i = blockIdx.x * BLOCK + threadIdx.x, pair = i % across, band = i / across % bands;
  const bool there = i < strips, begins = pair == 0, asks = threadIdx.x % 32 == 0 && !begins;
  const int64_t plane = i / across / bands;
  const int row = band * Rows, left = there ? s.out_height - row : 0;  // rows of outputs that are left from here on
  const float* from = x + (plane * s.height + 2 * row - 1) * s.width + pair * 4;
  float* to = out + (plane * s.out_height + row) * s.out_width + pair * 2;
  Piece pieces[2 * Rows + 1];
  pieces[0] = piece_at(from, there && row > 0, asks);
#pragma unroll
  for (int r = 1; r <= 2 * Rows; ++r) pieces[r] = piece_at(from + r * s.width, (r - 1) / 2 < left, asks);
  float2 carried = row_maxima(pieces[0], begins);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const float2 here = row_maxima(pieces[2 * r + 1], begins), next = row_maxima(pieces[2 * r + 2], begins);
    if (r < left)
      __stcs(reinterpret_cast<float2*>(to + r * s.out_width),
             make_float2(larger(carried.x, larger(here.x, next.x)), larger(carried.y, larger(here.y, next.y))));
    carried = next;
  }
}

// Any window, one thread an output; `across` blocks cover a plane. Kernel 0: of a size known when it runs.
template <int Kernel>
__global__ void __launch_bounds__(BLOCK) pool_single(const float* x, float* out, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, area = s.out_height * s.out_width;
  if (i >= area) return;
  const float* from = x + plane * s.height * s.width;
  const int row = i / s.out_width * s.stride - s.padding, col = i % s.out_width * s.stride - s.padding;
  float largest = -INFINITY;
  if constexpr (Kernel > 0) {
#pragma unroll
    for (int r = 0; r < Kernel; ++r)
#pragma unroll
      for (int c = 0; c < Kernel; ++c)
        if (row + r >= 0 && row + r < s.height && col + c >= 0 && col + c < s.width)
          largest = larger(largest, from[(row + r) * s.width + col + c]);
  } else {
    for (int r = max(row, 0); r < min(row + s.kernel, s.height); ++r)
      for (int c = max(col, 0); c < min(col + s.kernel, s.width); ++c)
        largest = larger(largest, from[r * s.width + c]);
  }
  out[plane * area + i] = largest;
}

void launch(const float* x, float* out, Shape s) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto blocks = [](int64_t count) { return static_cast<unsigned>((count + BLOCK - 1) / BLOCK); };
  const int64_t area = static_cast<int64_t>(s.out_height) * s.out_width, outputs = s.planes * area;
  const bool packs = reinterpret_cast<uintptr_t>(x) % 16 == 0 && s.width % 4 == 0 && s.height % 2 == 0 &&
                     s.stride == 2 && outputs < (1ll << 32);
  if (outputs == 0) return;
  if (packs && s.kernel == 2 && s.padding == 0) {
    const int64_t pairs = outputs / 2;
    const bool big = pairs / UNROLL >= BIG_THREADS;
    const auto run = big ? pool_pairs<UNROLL> : pool_pairs<1>;
    run<<<blocks((pairs + (big ? UNROLL : 1) - 1) / (big ? UNROLL : 1)), BLOCK, 0, stream>>>(
        x, out, static_cast<unsigned>(pairs), static_cast<unsigned>(s.width / 4));
  } else if (packs && s.kernel == 3 && s.padding == 1) {
    const auto strips = [&](int64_t rows) { return s.planes * ((s.out_height + rows - 1) / rows) * (s.width / 4); };
    const bool big = strips(ROWS) >= BIG_THREADS;
    const int64_t count = strips(big ? ROWS : 1);
    const auto run = big ? pool_strips<ROWS> : pool_strips<1>;
    run<<<blocks(count), BLOCK, 0, stream>>>(x, out, s, static_cast<unsigned>(count));
  } else {
    const unsigned across = blocks(area);
    const auto run = s.kernel == 1   ? pool_single<1>
                     : s.kernel == 2 ? pool_single<2>
                     : s.kernel == 3 ? pool_single<3>
                     : s.kernel == 4 ? pool_single<4>
                     : s.kernel == 5 ? pool_single<5>
                                     : pool_single<0>;
    run<<<static_cast<unsigned>(s.planes) * across, BLOCK, 0, stream>>>(x, out, s, across);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  const Shape s = shape_of(x, kernel, stride, padding);
  auto out = torch::empty({x.size(0), x.size(1), s.out_height, s.out_width}, x.options());
  launch(x.data_ptr<float>(), out.data_ptr<float>(), s);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
