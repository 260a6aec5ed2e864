// ResNet's basic block as two launches of one kernel: convolution, batch norm, a shortcut if given, ReLU.
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
// tune: TILE = 64 [32, 64, 128]
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
  int64_t batch, channels;
  int height, width;
};

Shape shape_of(torch::Tensor x) {
  return {x.size(0), x.size(1), static_cast<int>(x.size(2)), static_cast<int>(x.size(3))};
}

// Batch norm by running statistics, one entry a channel.
struct Norm {
  const float *gamma, *beta, *mean, *var;
  float eps;
};

Norm norm_of(torch::Tensor gamma, torch::Tensor beta, torch::Tensor mean, torch::Tensor var, double eps) {
  return {gamma.data_ptr<float>(), beta.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
          static_cast<float>(eps)};
}

// relu(bn(sum) + shortcut) at output i.
__device__ float finished(float sum, Norm norm, int64_t filter, const float* shortcut, int64_t i) {
  const float scale = norm.gamma[filter] / sqrtf(norm.var[filter] + norm.eps);
  const float normal = (sum - norm.mean[filter]) * scale + norm.beta[filter];
  return fmaxf(shortcut ? normal + shortcut[i] : normal, 0.0f);
}

// out = relu(bn(conv(x)) + shortcut), the convolution 3 by 3 with padding 1.
__global__ void conv_norm_relu(const float* x, const float* weight, Norm norm, const float* shortcut, float* out,
                               Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.batch * s.channels * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = static_cast<int>(i % area / s.width), col = static_cast<int>(i % s.width);
    const int64_t filter = i / area % s.channels, image = i / area / s.channels;
    float sum = 0.0f;
    for (int64_t channel = 0; channel < s.channels; ++channel) {
      const float* plane = x + (image * s.channels + channel) * area;
      const float* entry = weight + (filter * s.channels + channel) * 9;
      for (int r = max(row - 1, 0); r <= min(row + 1, s.height - 1); ++r)
        for (int c = max(col - 1, 0); c <= min(col + 1, s.width - 1); ++c)
          sum += plane[static_cast<int64_t>(r) * s.width + c] * entry[(r - row + 1) * 3 + c - col + 1];
    }
    out[i] = finished(sum, norm, filter, shortcut, i);
  }
}

#if STRATEGY == 1
// The same by tiles; columns of a tile are places of all images.
__global__ void conv_norm_relu_tiles(const float* x, const float* weight, Norm norm, const float* shortcut, float* out,
                                     Shape s) {
  constexpr int side = TILE / 16, run = side < 4 ? side : 4;
  struct alignas(4 * run) Run {
    float at[run];
  };
  __shared__ alignas(16) float tile_w[DEPTH][TILE + 4], tile_x[DEPTH][TILE + 4];
  const int area = s.height * s.width, depth = static_cast<int>(s.channels) * 9;
  const int64_t outputs = s.batch * area, across = (outputs + TILE - 1) / TILE;
  const int64_t filter0 = blockIdx.x / across * TILE, column0 = blockIdx.x % across * TILE;
  const int64_t own = column0 + threadIdx.x % TILE;  // the place whose window this thread reads
  const float* image = x + own / area * s.channels * area;
  const int row0 = static_cast<int>(own % area) / s.width - 1, col0 = static_cast<int>(own % area) % s.width - 1;
  const int down = threadIdx.x / 16, right = threadIdx.x % 16;
  const auto place = [](int mine, int i) { return i / run * 16 * run + mine * run + i % run; };
  float sum[side][side] = {};
  for (int k0 = 0; k0 < depth; k0 += DEPTH) {
#pragma unroll 4
    for (int i = threadIdx.x; i < TILE * DEPTH; i += kThreads) {
      const int64_t filter = filter0 + i / DEPTH;
      const int k = k0 + i % DEPTH, entry = k0 + i / TILE, row = row0 + entry / 3 % 3, col = col0 + entry % 3;
      const bool inside = own < outputs && entry < depth && row >= 0 && row < s.height && col >= 0 && col < s.width;
      tile_w[i % DEPTH][i / DEPTH] = filter < s.channels && k < depth ? weight[filter * depth + k] : 0.0f;
      tile_x[i / TILE][i % TILE] = inside ? image[static_cast<int64_t>(entry / 9) * area + row * s.width + col] : 0.0f;
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
  for (int i = 0; i < side * side; ++i) {
    const int64_t filter = filter0 + place(down, i / side), column = column0 + place(right, i % side);
    if (filter >= s.channels || column >= outputs) continue;
    const int64_t to = (column / area * s.channels + filter) * area + column % area;
    out[to] = finished(sum[i / side][i % side], norm, filter, shortcut, to);
  }
}
#endif

void launch(torch::Tensor x, torch::Tensor weight, Norm norm, const float* shortcut, torch::Tensor out) {
  const Shape s = shape_of(x);
  int64_t blocks = blocks_for(x.numel());
  auto kernel = &conv_norm_relu;
#if STRATEGY == 1
  blocks = (s.channels + TILE - 1) / TILE * ((s.batch * s.height * s.width + TILE - 1) / TILE);
  kernel = &conv_norm_relu_tiles;
#endif
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), norm, shortcut, out.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight1, torch::Tensor gamma1, torch::Tensor beta1,
                      torch::Tensor weight2, torch::Tensor gamma2, torch::Tensor beta2, torch::Tensor mean1,
                      torch::Tensor var1, torch::Tensor mean2, torch::Tensor var2, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight1.is_contiguous() && weight2.is_contiguous(), "tensors must be contiguous");
  auto hidden = torch::empty_like(x), out = torch::empty_like(x);
  launch(x, weight1, norm_of(gamma1, beta1, mean1, var1, eps), nullptr, hidden);
  launch(hidden, weight2, norm_of(gamma2, beta2, mean2, var2, eps), x.data_ptr<float>(), out);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
