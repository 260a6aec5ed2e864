// Direct convolution, one thread an output; neighbours in a warp share the filter and read along a row.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How outputs are made. 0: one thread an output, a direct sum. 1: as a product of filters by windows: a block has TILE
// filters by TILE outputs, each thread a square of them in its registers. 2: as 1, 16-bit numbers by tensor cores.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// Filters and outputs of a tile, and entries of their windows that are in shared memory at once.
// tune: TILE = 64 [32, 64, 128]
#ifndef TILE
#define TILE 64
#endif
// tune: DEPTH = 16 [16, 32]
#ifndef DEPTH
#define DEPTH 16
#endif

#if STRATEGY == 2
#include <mma.h>
#endif

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

// Where the window of one output starts; no image: past the last output.
template <typename scalar_t>
struct Window {
  const scalar_t* image;
  int row, col;
};

template <typename scalar_t>
__device__ Window<scalar_t> window_of(const scalar_t* x, Shape s, int64_t pixel) {
  const int area = s.out_height * s.out_width, place = static_cast<int>(pixel % area);
  if (pixel >= s.batch * area) return {nullptr, 0, 0};
  return {x + pixel / area * s.channels * s.height * s.width, place / s.out_width * s.stride - s.padding,
          place % s.out_width * s.stride - s.padding};
}

// Entry k of a window, channel by channel; zero outside the image. Kernel 0: of any size.
template <int Kernel, typename scalar_t>
__device__ float entry_of(Window<scalar_t> w, Shape s, int k) {
  const int kernel = Kernel > 0 ? Kernel : s.kernel, channel = k / (kernel * kernel);
  const int row = w.row + k / kernel % kernel, col = w.col + k % kernel;
  const bool inside = w.image && channel < s.channels && row >= 0 && row < s.height && col >= 0 && col < s.width;
  return inside ? static_cast<float>(w.image[(static_cast<int64_t>(channel) * s.height + row) * s.width + col]) : 0.0f;
}

// DEPTH entries from k0 on: of TILE filters, and of the windows of TILE outputs, one of which is this thread's own.
template <int Kernel, typename kept_t, int Pitch, typename scalar_t>
__device__ void load(kept_t (&tile_w)[DEPTH][Pitch], kept_t (&tile_x)[DEPTH][Pitch], const scalar_t* weight,
                     Window<scalar_t> own, Shape s, int64_t filter0, int k0) {
  const int depth = static_cast<int>(s.channels) * s.kernel * s.kernel;
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE * DEPTH; i += kThreads) {
    const int64_t filter = filter0 + i / DEPTH, k = k0 + i % DEPTH;
    const bool inside = filter < s.filters && k < depth;
    tile_w[i % DEPTH][i / DEPTH] = static_cast<kept_t>(inside ? static_cast<float>(weight[filter * depth + k]) : 0.0f);
    tile_x[i / TILE][i % TILE] = static_cast<kept_t>(entry_of<Kernel>(own, s, k0 + i / TILE));
  }
}

template <typename scalar_t>
__device__ void put(const scalar_t* bias, scalar_t* out, Shape s, int64_t filter, int64_t pixel, float sum) {
  const int64_t area = static_cast<int64_t>(s.out_height) * s.out_width;
  if (filter < s.filters && pixel < s.batch * area)
    out[(pixel / area * s.filters + filter) * area + pixel % area] =
        static_cast<scalar_t>(sum + static_cast<float>(bias[filter]));
}

template <typename scalar_t, int Kernel>
__global__ void conv2d_tiles(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, Shape s) {
  constexpr int side = TILE / 16, run = side < 4 ? side : 4;
  struct alignas(4 * run) Run {
    float at[run];
  };
  __shared__ alignas(16) float tile_w[DEPTH][TILE + 4], tile_x[DEPTH][TILE + 4];
  const int64_t across = (s.batch * s.out_height * s.out_width + TILE - 1) / TILE;
  const int64_t filter0 = blockIdx.x / across * TILE, pixel0 = blockIdx.x % across * TILE;
  const int down = threadIdx.x / 16, right = threadIdx.x % 16;
  const auto own = window_of(x, s, pixel0 + threadIdx.x % TILE);
  const auto place = [](int mine, int i) { return i / run * 16 * run + mine * run + i % run; };
  float sum[side][side] = {};
  for (int k0 = 0; k0 < s.channels * s.kernel * s.kernel; k0 += DEPTH) {
    load<Kernel>(tile_w, tile_x, weight, own, s, filter0, k0);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < DEPTH; ++k) {
      Run left[side / run], top[side / run];
#pragma unroll
      for (int i = 0; i < side; i += run) {
        left[i / run] = *reinterpret_cast<const Run*>(&tile_w[k][place(down, i)]);
        top[i / run] = *reinterpret_cast<const Run*>(&tile_x[k][place(right, i)]);
      }
#pragma unroll
      for (int i = 0; i < side * side; ++i)
        sum[i / side][i % side] += left[i / side / run].at[i / side % run] * top[i % side / run].at[i % side % run];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < side * side; ++i)
    put(bias, out, s, filter0 + place(down, i / side), pixel0 + place(right, i % side), sum[i / side][i % side]);
}

#if STRATEGY == 2
// The same by tensor cores: two by four warps (by two in a small tile), each with its squares of 16 by 16.
template <typename scalar_t, int Kernel>
__global__ void conv2d_cores(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, Shape s) {
  using namespace nvcuda::wmma;
  using native_t = std::conditional_t<std::is_same_v<scalar_t, at::Half>, __half, __nv_bfloat16>;
  constexpr int wide = TILE < 64 ? 2 : 4, down = TILE / 32, right = TILE / 16 / wide, pitch = TILE + 8;
  __shared__ alignas(32) native_t tile_w[DEPTH][pitch], tile_x[DEPTH][pitch];
  __shared__ alignas(32) float staged[kThreads / 32][256];
  const int64_t across = (s.batch * s.out_height * s.out_width + TILE - 1) / TILE;
  const int64_t filter0 = blockIdx.x / across * TILE, pixel0 = blockIdx.x % across * TILE;
  const auto own = window_of(x, s, pixel0 + threadIdx.x % TILE);
  const int warp = threadIdx.x / 32, row = warp / wide * down * 16, col = warp % wide * right * 16;
  fragment<accumulator, 16, 16, 16, float> sum[down][right];
  for (int i = 0; i < down * right; ++i) fill_fragment(sum[i / right][i % right], 0.0f);
  for (int k0 = 0; k0 < s.channels * s.kernel * s.kernel; k0 += DEPTH) {
    load<Kernel>(tile_w, tile_x, weight, own, s, filter0, k0);
    __syncthreads();
    for (int k = 0; k < DEPTH && row < TILE; k += 16) {
      fragment<matrix_a, 16, 16, 16, native_t, col_major> left[down];
      fragment<matrix_b, 16, 16, 16, native_t, row_major> top[right];
      for (int i = 0; i < down; ++i) load_matrix_sync(left[i], &tile_w[k][row + 16 * i], pitch);
      for (int i = 0; i < right; ++i) load_matrix_sync(top[i], &tile_x[k][col + 16 * i], pitch);
      for (int i = 0; i < down * right; ++i)
        mma_sync(sum[i / right][i % right], left[i / right], top[i % right], sum[i / right][i % right]);
    }
    __syncthreads();
  }
  for (int i = 0; i < down * right && row < TILE; ++i) {
    store_matrix_sync(staged[warp], sum[i / right][i % right], 16, mem_row_major);
    __syncwarp();
    for (int j = threadIdx.x % 32; j < 256; j += 32)
      put(bias, out, s, filter0 + row + i / right * 16 + j / 16, pixel0 + col + i % right * 16 + j % 16,
          staged[warp][j]);
    __syncwarp();
  }
}
#endif

// The kernel of what was chosen.
template <typename scalar_t, int Kernel>
auto chosen() {
  auto kernel = &conv2d<scalar_t>;
  if constexpr (STRATEGY > 0) kernel = &conv2d_tiles<scalar_t, Kernel>;
#if STRATEGY == 2
  if constexpr (sizeof(scalar_t) == 2) kernel = &conv2d_cores<scalar_t, Kernel>;
#endif
  return kernel;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x, weight, stride, padding);
  auto out = torch::empty({s.batch, s.filters, s.out_height, s.out_width}, x.options());
  const int64_t tiles = (s.filters + TILE - 1) / TILE * ((s.batch * s.out_height * s.out_width + TILE - 1) / TILE);
  const unsigned blocks = static_cast<unsigned>(STRATEGY > 0 ? tiles : blocks_for(out.numel()));
  DISPATCH(x, "conv2d", [&] {
    constexpr int three = STRATEGY == 0 ? 0 : 3;
    const auto kernel = s.kernel == 3 ? chosen<scalar_t, three>() : chosen<scalar_t, 0>();
    kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), s);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
