// Gradients of ResNet's basic block: ReLU and batch norm one block a channel, convolutions as direct sums.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How gradients are made. 0: one thread an input, one block an entry of a filter, direct sums. 1: as products by tiles,
// a square of results in each thread's registers, long sums in parts.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// Rows and columns of a tile of results, and steps of the sum that are in shared memory at once.
// tune: TILE = 64 [32, 64]
#ifndef TILE
#define TILE 64
#endif
// tune: DEPTH = 16 [16, 32]
#ifndef DEPTH
#define DEPTH 16
#endif
// Blocks that share the sum of a filter's entry.
// tune: PARTS = 16 [4, 16, 64]
#ifndef PARTS
#define PARTS 16
#endif

namespace {

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

// The sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += partial[warp];
  return total;
}

struct Shape {
  int64_t batch, channels;
  int height, width;
};

Shape shape_of(torch::Tensor x) {
  return {x.size(0), x.size(1), static_cast<int>(x.size(2)), static_cast<int>(x.size(3))};
}

// Through ReLU (open where `active` is positive) and batch norm: the gradient of the convolution, of gain and of shift.
// One block a channel.
__global__ void norm_gradients(const float* grad, const float* active, const float* conv, const float* gamma,
                               const float* mean, const float* var, float eps, float* grad_conv, float* grad_gamma,
                               float* grad_beta, Shape s) {
  const int64_t channel = blockIdx.x, area = static_cast<int64_t>(s.height) * s.width;
  const float middle = mean[channel], rstd = 1.0f / sqrtf(var[channel] + eps), scale = gamma[channel] * rstd;
  float gain = 0.0f, shift = 0.0f;
  for (int64_t image = 0; image < s.batch; ++image) {
    const int64_t start = (image * s.channels + channel) * area;
    for (int64_t i = start + threadIdx.x; i < start + area; i += kThreads) {
      const float open = active[i] > 0.0f ? grad[i] : 0.0f;
      gain += open * (conv[i] - middle) * rstd;
      shift += open;
      grad_conv[i] = open * scale;
    }
  }
  gain = block_sum(gain);
  shift = block_sum(shift);
  if (threadIdx.x != 0) return;
  grad_gamma[channel] = gain;
  grad_beta[channel] = shift;
}

// The gradient of a 3 by 3 convolution's input, and the shortcut's where one is given. One thread an input.
__global__ void input_gradient(const float* grad_conv, const float* weight, const float* grad_out, const float* out,
                               float* grad_x, Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.batch * s.channels * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = static_cast<int>(i % area / s.width), col = static_cast<int>(i % s.width);
    const int64_t channel = i / area % s.channels, image = i / area / s.channels;
    float sum = grad_out && out[i] > 0.0f ? grad_out[i] : 0.0f;
    for (int64_t filter = 0; filter < s.channels; ++filter) {
      const float* plane = grad_conv + (image * s.channels + filter) * area;
      const float* entry = weight + (filter * s.channels + channel) * 9;
      for (int r = max(row - 1, 0); r <= min(row + 1, s.height - 1); ++r)
        for (int c = max(col - 1, 0); c <= min(col + 1, s.width - 1); ++c)
          sum += plane[static_cast<int64_t>(r) * s.width + c] * entry[(row - r + 1) * 3 + col - c + 1];
    }
    grad_x[i] = sum;
  }
}

// The gradient of one entry of one filter: a sum over all images and places. One block an entry.
__global__ void weight_gradient(const float* grad_conv, const float* x, float* grad_weight, Shape s) {
  const int area = s.height * s.width;
  const int64_t entry = blockIdx.x;
  const int r = static_cast<int>(entry / 3 % 3) - 1, c = static_cast<int>(entry % 3) - 1;
  const int64_t channel = entry / 9 % s.channels, filter = entry / 9 / s.channels;
  float sum = 0.0f;
  for (int64_t image = 0; image < s.batch; ++image) {
    const float* grads = grad_conv + (image * s.channels + filter) * area;
    const float* values = x + (image * s.channels + channel) * area;
    for (int i = threadIdx.x; i < area; i += kThreads) {
      const int row = i / s.width + r, col = i % s.width + c;
      if (row >= 0 && row < s.height && col >= 0 && col < s.width) sum += grads[i] * values[row * s.width + col];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) grad_weight[entry] = sum;
}

#if STRATEGY == 1
// Both gradients of a convolution as products: left(row, k) · right(k, col).
struct Conv {
  const float *grad_conv, *x, *weight, *grad_out, *out;
  float *grad_x, *parts;
  Shape s;

  // A filter's gradient at place k of all images; or entry k = (filter, place in it) of one channel.
  template <bool Filters>
  __device__ float left(int row, int k) const {
    const int area = s.height * s.width;
    return Filters ? grad_conv[(k / area * s.channels + row) * area + k % area]
                   : weight[(k / 9 * s.channels + row) * 9 + k % 9];
  }

  // Entry col = (channel, place in it) of the window of place k; or the gradient that place col of all images gets
  // through entry k. Zero outside.
  template <bool Filters>
  __device__ float right(int k, int col) const {
    const int entry = Filters ? col : k, pixel = Filters ? k : col, area = s.height * s.width;
    const int r = entry / 3 % 3 - 1, c = entry % 3 - 1, place = pixel % area;
    const int row = place / s.width + (Filters ? r : -r), column = place % s.width + (Filters ? c : -c);
    const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
    const int64_t plane = pixel / area * s.channels + entry / 9;
    return inside ? (Filters ? x : grad_conv)[plane * area + row * s.width + column] : 0.0f;
  }

  template <bool Filters>
  __device__ void put(int row, int col, int cols, int rows, float sum) const {
    const int area = s.height * s.width;
    const int64_t i = (col / area * s.channels + row) * area + col % area;
    if (Filters)
      parts[(static_cast<int64_t>(blockIdx.y) * rows + row) * cols + col] = sum;
    else
      grad_x[i] = sum + (grad_out && out[i] > 0.0f ? grad_out[i] : 0.0f);
  }
};

// The filters' gradients in parts of their sums (blockIdx.y), or the input's, a tile a block.
template <bool Filters>
__global__ void product(Conv conv, int rows, int cols, int depth) {
  constexpr int side = TILE / 16;
  __shared__ float tile_a[DEPTH][TILE + 1], tile_b[DEPTH][TILE + 1];
  const int across = (cols + TILE - 1) / TILE, row0 = blockIdx.x / across * TILE, col0 = blockIdx.x % across * TILE;
  const int part = (depth + gridDim.y - 1) / gridDim.y, end = min(static_cast<int>(blockIdx.y + 1) * part, depth);
  const int down = threadIdx.x / 16, right = threadIdx.x % 16;
  float sum[side][side] = {};
  for (int k0 = blockIdx.y * part; k0 < end; k0 += DEPTH) {
#pragma unroll 2
    for (int i = threadIdx.x; i < TILE * DEPTH; i += kThreads) {
      const int k = i % DEPTH, row = i / DEPTH, deep = Filters ? k : i / TILE, col = Filters ? row : i % TILE;
      const bool inside = col0 + col < cols && k0 + deep < end;
      tile_a[k][row] = row0 + row < rows && k0 + k < end ? conv.left<Filters>(row0 + row, k0 + k) : 0.0f;
      tile_b[deep][col] = inside ? conv.right<Filters>(k0 + deep, col0 + col) : 0.0f;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < DEPTH; ++k)
#pragma unroll
      for (int i = 0; i < side * side; ++i)
        sum[i / side][i % side] += tile_a[k][down + 16 * (i / side)] * tile_b[k][right + 16 * (i % side)];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < side * side; ++i) {
    const int row = row0 + down + 16 * (i / side), col = col0 + right + 16 * (i % side);
    if (row < rows && col < cols) conv.put<Filters>(row, col, cols, rows, sum[i / side][i % side]);
  }
}

// Joins the parts of the filters' gradients.
__global__ void join(const float* parts, float* out, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0.0f;
  for (int64_t part = 0; part < PARTS && i < count; ++part) sum += parts[part * count + i];
  if (i < count) out[i] = sum;
}
#endif

// The gradients of a convolution's filters and of its input, and the shortcut's where one is given.
void conv_gradients(const float* grad_conv, torch::Tensor x, torch::Tensor weight, const float* grad_out,
                    const float* out, torch::Tensor grad_weight, torch::Tensor grad_x) {
  const Shape s = shape_of(x);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const float *from = x.data_ptr<float>(), *by = weight.data_ptr<float>();
  float *filters = grad_weight.data_ptr<float>(), *to = grad_x.data_ptr<float>();
  const int entries = static_cast<int>(weight.numel());
#if STRATEGY == 1
  const auto tiles = [](int rows, int cols) { return (rows + TILE - 1) / TILE * ((cols + TILE - 1) / TILE); };
  auto parts = torch::empty({PARTS, entries}, x.options());
  const Conv conv = {grad_conv, from, by, grad_out, out, to, parts.data_ptr<float>(), s};
  const int channels = static_cast<int>(s.channels), places = static_cast<int>(s.batch) * s.height * s.width;
  product<true><<<dim3(tiles(channels, channels * 9), PARTS), kThreads, 0, stream>>>(conv, channels, channels * 9,
                                                                                     places);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  join<<<blocks_for(entries), kThreads, 0, stream>>>(conv.parts, filters, entries);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  product<false><<<tiles(channels, places), kThreads, 0, stream>>>(conv, channels, places, channels * 9);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
#else
  weight_gradient<<<entries, kThreads, 0, stream>>>(grad_conv, from, filters, s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  input_gradient<<<blocks_for(x.numel()), kThreads, 0, stream>>>(grad_conv, by, grad_out, out, to, s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
#endif
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight1,
                                    torch::Tensor gamma1, torch::Tensor beta1, torch::Tensor weight2,
                                    torch::Tensor gamma2, torch::Tensor beta2, torch::Tensor mean1, torch::Tensor var1,
                                    torch::Tensor mean2, torch::Tensor var2, double eps, torch::Tensor conv1,
                                    torch::Tensor hidden, torch::Tensor conv2, torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight1.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(weight2.is_contiguous() && conv1.is_contiguous() && hidden.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(conv2.is_contiguous() && out.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x);
  auto grad_conv = torch::empty_like(x), grad_hidden = torch::empty_like(x), grad_x = torch::empty_like(x);
  auto grad_weight1 = torch::empty_like(weight1), grad_weight2 = torch::empty_like(weight2);
  auto grad_gamma1 = torch::empty_like(gamma1), grad_gamma2 = torch::empty_like(gamma2);
  auto grad_beta1 = torch::empty_like(beta1), grad_beta2 = torch::empty_like(beta2);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned channels = static_cast<unsigned>(s.channels);
  const float *grads = grad_out.data_ptr<float>(), *active = out.data_ptr<float>();
  float* grad = grad_conv.data_ptr<float>();

  norm_gradients<<<channels, kThreads, 0, stream>>>(
      grads, active, conv2.data_ptr<float>(), gamma2.data_ptr<float>(), mean2.data_ptr<float>(),
      var2.data_ptr<float>(), static_cast<float>(eps), grad, grad_gamma2.data_ptr<float>(),
      grad_beta2.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  conv_gradients(grad, hidden, weight2, nullptr, nullptr, grad_weight2, grad_hidden);

  norm_gradients<<<channels, kThreads, 0, stream>>>(
      grad_hidden.data_ptr<float>(), hidden.data_ptr<float>(), conv1.data_ptr<float>(), gamma1.data_ptr<float>(),
      mean1.data_ptr<float>(), var1.data_ptr<float>(), static_cast<float>(eps), grad, grad_gamma1.data_ptr<float>(),
      grad_beta1.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  conv_gradients(grad, x, weight1, grads, active, grad_weight1, grad_x);
  return {grad_x, grad_weight1, grad_gamma1, grad_beta1, grad_weight2, grad_gamma2, grad_beta2};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
