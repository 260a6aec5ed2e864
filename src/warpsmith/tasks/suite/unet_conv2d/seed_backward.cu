// Gradients of a convolution, each as a direct sum: one thread an input, one block an entry of a filter.
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

// The gradient at one input: every output whose window covers it. One thread an input.
template <typename scalar_t>
__global__ void input_gradient(const scalar_t* grad_out, const scalar_t* weight, scalar_t* grad_x, Shape s) {
  const int64_t area = static_cast<int64_t>(s.height) * s.width, count = s.batch * s.channels * area;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int row = static_cast<int>(i % area / s.width) + s.padding, col = static_cast<int>(i % s.width) + s.padding;
    const int64_t channel = i / area % s.channels, image = i / area / s.channels;
    float sum = 0.0f;
    for (int64_t filter = 0; filter < s.filters; ++filter)
      for (int r = row % s.stride; r < s.kernel; r += s.stride) {
        const int out_row = (row - r) / s.stride;
        if (r > row || out_row >= s.out_height) continue;
        for (int c = col % s.stride; c < s.kernel; c += s.stride) {
          const int out_col = (col - c) / s.stride;
          if (c > col || out_col >= s.out_width) continue;
          sum += static_cast<float>(
                     grad_out[((image * s.filters + filter) * s.out_height + out_row) * s.out_width + out_col]) *
                 static_cast<float>(weight[((filter * s.channels + channel) * s.kernel + r) * s.kernel + c]);
        }
      }
    grad_x[i] = static_cast<scalar_t>(sum);
  }
}

// The gradient of one entry of one filter: a sum over all images and outputs. One block an entry.
template <typename scalar_t>
__global__ void weight_gradient(const scalar_t* grad_out, const scalar_t* x, scalar_t* grad_weight, Shape s) {
  const int64_t count = s.filters * s.channels * s.kernel * s.kernel;
  const int area = s.out_height * s.out_width;
  for (int64_t entry = blockIdx.x; entry < count; entry += gridDim.x) {
    const int c = static_cast<int>(entry % s.kernel), r = static_cast<int>(entry / s.kernel % s.kernel);
    const int64_t channel = entry / (s.kernel * s.kernel) % s.channels;
    const int64_t filter = entry / (s.kernel * s.kernel) / s.channels;
    float sum = 0.0f;
    for (int64_t image = 0; image < s.batch; ++image) {
      const scalar_t* grads = grad_out + (image * s.filters + filter) * area;
      const scalar_t* values = x + (image * s.channels + channel) * s.height * s.width;
      for (int i = threadIdx.x; i < area; i += kThreads) {
        const int row = i / s.out_width * s.stride - s.padding + r, col = i % s.out_width * s.stride - s.padding + c;
        if (row < 0 || row >= s.height || col < 0 || col >= s.width) continue;
        sum += static_cast<float>(grads[i]) * static_cast<float>(values[static_cast<int64_t>(row) * s.width + col]);
      }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) grad_weight[entry] = static_cast<scalar_t>(sum);
  }
}

// The gradient of one filter's bias: the sum of its planes. One block a filter.
template <typename scalar_t>
__global__ void bias_gradient(const scalar_t* grad_out, scalar_t* grad_bias, Shape s) {
  const int area = s.out_height * s.out_width;
  float sum = 0.0f;
  for (int64_t image = 0; image < s.batch; ++image)
    for (int i = threadIdx.x; i < area; i += kThreads)
      sum += static_cast<float>(grad_out[(image * s.filters + blockIdx.x) * area + i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) grad_bias[blockIdx.x] = static_cast<scalar_t>(sum);
}

// Both gradients as products: left(row, k) · right(k, col).
template <typename scalar_t>
struct Conv {
  const scalar_t *grad_out, *x, *weight;
  scalar_t* grad_x;
  float* parts;
  Shape s;

  // A filter's gradient at output k of all images; or entry k = (filter, place in it) of one channel.
  template <bool Filters>
  __device__ float left(int row, int k) const {
    const int area = s.out_height * s.out_width, size = s.kernel * s.kernel;
    return Filters ? static_cast<float>(grad_out[(k / area * s.filters + row) * area + k % area])
                   : static_cast<float>(weight[(k / size * s.channels + row) * size + k % size]);
  }

  // Entry col = (channel, place in it) of the window of output k; or the gradient that input col of all images gets
  // through entry k. Zero where there is none.
  template <bool Filters>
  __device__ float right(int k, int col) const {
    const int entry = Filters ? col : k, pixel = Filters ? k : col;
    const int wide = Filters ? s.out_width : s.width, area = wide * (Filters ? s.out_height : s.height);
    const int plane = entry / (s.kernel * s.kernel), r = entry / s.kernel % s.kernel, c = entry % s.kernel;
    int row = pixel % area / wide, column = pixel % wide;
    if (Filters) {
      row = row * s.stride - s.padding + r, column = column * s.stride - s.padding + c;
      const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
      const int64_t place = (pixel / area * s.channels + plane) * s.height + row;
      return inside ? static_cast<float>(x[place * s.width + column]) : 0.0f;
    }
    row += s.padding - r, column += s.padding - c;
    const bool met = row >= 0 && column >= 0 && row % s.stride == 0 && column % s.stride == 0;
    row /= s.stride, column /= s.stride;
    const int64_t place = (pixel / area * s.filters + plane) * s.out_height + row;
    if (!met || row >= s.out_height || column >= s.out_width) return 0.0f;
    return static_cast<float>(grad_out[place * s.out_width + column]);
  }

  template <bool Filters>
  __device__ void put(int row, int col, int cols, int rows, float sum) const {
    const int area = s.height * s.width;
    if (Filters)
      parts[(static_cast<int64_t>(blockIdx.y) * rows + row) * cols + col] = sum;
    else
      grad_x[(col / area * s.channels + row) * area + col % area] = static_cast<scalar_t>(sum);
  }
};

// The filters' gradients in parts of their sums (blockIdx.y), or the input's, a tile a block.
template <bool Filters, typename scalar_t>
__global__ void product(Conv<scalar_t> conv, int rows, int cols, int depth) {
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
      tile_a[k][row] = row0 + row < rows && k0 + k < end ? conv.template left<Filters>(row0 + row, k0 + k) : 0.0f;
      tile_b[deep][col] = inside ? conv.template right<Filters>(k0 + deep, col0 + col) : 0.0f;
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
    if (row < rows && col < cols) conv.template put<Filters>(row, col, cols, rows, sum[i / side][i % side]);
  }
}

// Joins the parts of the filters' gradients.
template <typename scalar_t>
__global__ void join(const float* parts, scalar_t* out, int count) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0.0f;
  for (int64_t part = 0; part < PARTS && i < count; ++part) sum += parts[part * count + i];
  if (i < count) out[i] = static_cast<scalar_t>(sum);
}

template <typename scalar_t>
void products(Conv<scalar_t> conv, scalar_t* grad_weight, cudaStream_t stream) {
  const Shape s = conv.s;
  const auto tiles = [](int64_t rows, int64_t cols) {
    return static_cast<unsigned>((rows + TILE - 1) / TILE * ((cols + TILE - 1) / TILE));
  };
  const int size = s.kernel * s.kernel, channels = static_cast<int>(s.channels), filters = static_cast<int>(s.filters);
  const int inputs = static_cast<int>(s.batch) * s.height * s.width, entries = channels * size;
  const int outputs = static_cast<int>(s.batch) * s.out_height * s.out_width;
  product<false><<<tiles(channels, inputs), kThreads, 0, stream>>>(conv, channels, inputs, filters * size);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  product<true><<<dim3(tiles(filters, entries), PARTS), kThreads, 0, stream>>>(conv, filters, entries, outputs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  join<<<blocks_for(filters * entries), kThreads, 0, stream>>>(conv.parts, grad_weight, filters * entries);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    int64_t stride, int64_t padding) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  const Shape s = shape_of(x, weight, stride, padding);
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned entries = static_cast<unsigned>(std::min<int64_t>(weight.numel(), 1 << 30));
  DISPATCH(x, "conv2d_backward", [&] {
    const auto *grad = grad_out.data_ptr<scalar_t>(), *from = x.data_ptr<scalar_t>(), *by = weight.data_ptr<scalar_t>();
    auto *to = grad_x.data_ptr<scalar_t>(), *filters = grad_weight.data_ptr<scalar_t>();
    if constexpr (STRATEGY == 1) {
      auto parts = torch::empty({PARTS, weight.numel()}, x.options().dtype(torch::kFloat32));
      products<scalar_t>({grad, from, by, to, parts.template data_ptr<float>(), s}, filters, stream);
    } else {
      input_gradient<scalar_t><<<blocks_for(x.numel()), kThreads, 0, stream>>>(grad, by, to, s);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      weight_gradient<scalar_t><<<entries, kThreads, 0, stream>>>(grad, from, filters, s);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    bias_gradient<scalar_t><<<static_cast<unsigned>(s.filters), kThreads, 0, stream>>>(
        grad, grad_bias.data_ptr<scalar_t>(), s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
