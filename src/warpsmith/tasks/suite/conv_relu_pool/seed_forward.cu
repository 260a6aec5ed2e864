// Convolution, ReLU and 2 by 2 pooling at once, one thread a pooled output.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How outputs are made. 0: one thread an output, a direct sum. 1: as a product of filters by windows: a block has TILE
// filters by TILE outputs, each thread a square of them in its registers.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// Filters and outputs of a tile, and entries of their windows that are in shared memory at once.
// tune: TILE = 64 [64, 128]
#ifndef TILE
#define TILE 64
#endif
// tune: DEPTH = 16 [8, 16]
#ifndef DEPTH
#define DEPTH 16
#endif

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

// Entry k of the window from (row, col) on, channel by channel; zero outside. Kernel 0: of any size.
template <int Kernel>
__device__ float entry_of(const float* image, Shape s, int row, int col, int k) {
  const int kernel = Kernel > 0 ? Kernel : s.kernel, channel = k / (kernel * kernel);
  row += k / kernel % kernel;
  col += k % kernel;
  const bool inside = image && channel < s.channels && row >= 0 && row < s.height && col >= 0 && col < s.width;
  return inside ? image[(static_cast<int64_t>(channel) * s.height + row) * s.width + col] : 0.0f;
}

// Columns of a tile are outputs of the convolution, the four of a pooled one after another: a thread has all four.
template <int Kernel>
__global__ void conv_relu_pool_tiles(const float* x, const float* weight, const float* bias, float* out, Shape s) {
  constexpr int side = TILE / 16, run = side < 4 ? side : 4;
  struct alignas(4 * run) Run {
    float at[run];
  };
  __shared__ alignas(16) float tile_w[DEPTH][TILE + 4], tile_x[DEPTH][TILE + 4];
  const int half_height = s.out_height / 2, half_width = s.out_width / 2, area = half_height * half_width;
  const int depth = static_cast<int>(s.channels) * s.kernel * s.kernel;
  const int64_t outputs = 4 * s.batch * area, across = (outputs + TILE - 1) / TILE;
  const int64_t filter0 = blockIdx.x / across * TILE, column0 = blockIdx.x % across * TILE;
  const int64_t own = column0 + threadIdx.x % TILE, pooled = own / 4;  // the output whose window this thread reads
  const float* image = own < outputs ? x + pooled / area * s.channels * s.height * s.width : nullptr;
  const int row0 = static_cast<int>(pooled % area) / half_width * 2 + static_cast<int>(own % 4) / 2 - s.padding;
  const int col0 = static_cast<int>(pooled % area) % half_width * 2 + static_cast<int>(own % 2) - s.padding;
  const int down = threadIdx.x / 16, right = threadIdx.x % 16;
  const auto place = [](int mine, int i) { return i / run * 16 * run + mine * run + i % run; };
  float sum[side][side] = {};
  for (int k0 = 0; k0 < depth; k0 += DEPTH) {
#pragma unroll 4
    for (int i = threadIdx.x; i < TILE * DEPTH; i += kThreads) {
      const int64_t filter = filter0 + i / DEPTH, k = k0 + i % DEPTH;
      tile_w[i % DEPTH][i / DEPTH] = filter < s.filters && k < depth ? weight[filter * depth + k] : 0.0f;
      tile_x[i / TILE][i % TILE] = entry_of<Kernel>(image, s, row0, col0, k0 + i / TILE);
    }
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
  for (int i = 0; i < side * side; i += 4) {
    const int64_t filter = filter0 + place(down, i / side), to = (column0 + place(right, i % side)) / 4;
    if (filter >= s.filters || to >= s.batch * area) continue;
    float largest = 0.0f;  // ReLU: no less than zero
    for (int j = 0; j < 4; ++j) largest = fmaxf(largest, sum[i / side][i % side + j] + bias[filter]);
    out[(to / area * s.filters + filter) * area + to % area] = largest;
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t padding) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x, weight, 1, padding);
  auto out = torch::empty({s.batch, s.filters, s.out_height / 2, s.out_width / 2}, x.options());
  unsigned blocks = blocks_for(out.numel());
  auto kernel = &conv_relu_pool;
#if STRATEGY == 1
  const int64_t outputs = 4 * s.batch * (s.out_height / 2) * (s.out_width / 2);
  blocks = static_cast<unsigned>((s.filters + TILE - 1) / TILE * ((outputs + TILE - 1) / TILE));
  kernel = s.kernel == 3 ? &conv_relu_pool_tiles<3> : &conv_relu_pool_tiles<0>;
#endif
  kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
