// GroupNorm and SiLU, one block a group of an image; two passes, so that the variance loses no digits.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a group is worked on. 0: a block a group, read three times. 1: a block a group, held in registers; one too long
// for that as in 0. 2: several blocks a group, each reading its part once for the moments and once for the result.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [256, 512, 1024]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once (a pack), where a plane's size allows.
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif
// The least entries of a part.
#ifndef PART
#define PART 4096
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kHeld = 4;         // packs of a group that a thread can hold
constexpr int64_t kFill = 1056;  // blocks that fill an H200

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

// The sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[BLOCK / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < BLOCK / 32; ++warp) total += partial[warp];
  return total;
}

// Groups of `share` channels of `plane` entries each.
template <typename scalar_t>
struct Groups {
  const scalar_t *x, *weight, *bias;
  scalar_t* out;
  int64_t groups, share, plane;
  float eps;
  __host__ __device__ int64_t count() const { return share * plane; }
};

// Normalizes and activates the neighbours at entry `i` of a group.
template <int Vec, typename scalar_t>
__device__ void finish(Groups<scalar_t> g, int64_t group, int64_t i, const float (&values)[Vec], float mean,
                       float rstd) {
  const int64_t channel = group % g.groups * g.share + i / g.plane;
  const float gain = static_cast<float>(g.weight[channel]) * rstd, shift = static_cast<float>(g.bias[channel]);
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) {
    const float normal = (values[j] - mean) * gain + shift;
    result.at[j] = static_cast<scalar_t>(normal / (1.0f + expf(-normal)));
  }
  *reinterpret_cast<Pack<scalar_t, Vec>*>(g.out + group * g.count() + i) = result;
}

template <typename scalar_t, int Vec>
__global__ void group_norm_silu(Groups<scalar_t> g) {
  const int64_t count = g.count();
  const scalar_t* from = g.x + blockIdx.x * count;
  float values[Vec], sum = 0.0f, square = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < count; i += BLOCK * Vec) {
    load(values, from + i);
    for (int j = 0; j < Vec; ++j) sum += values[j];
  }
  const float mean = block_sum(sum) / static_cast<float>(count);
  for (int64_t i = threadIdx.x * Vec; i < count; i += BLOCK * Vec) {
    load(values, from + i);
    for (int j = 0; j < Vec; ++j) square += (values[j] - mean) * (values[j] - mean);
  }
  const float rstd = rsqrtf(block_sum(square) / static_cast<float>(count) + g.eps);
  for (int64_t i = threadIdx.x * Vec; i < count; i += BLOCK * Vec) {
    load(values, from + i);
    finish(g, blockIdx.x, i, values, mean, rstd);
  }
}

// The same for a group that the block's registers hold.
template <typename scalar_t, int Vec>
__global__ void group_norm_silu_held(Groups<scalar_t> g) {
  const int first = threadIdx.x * Vec, count = static_cast<int>(g.count());
  float values[kHeld][Vec], sum = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * BLOCK * Vec >= count) continue;
    load(values[k], g.x + blockIdx.x * g.count() + first + k * BLOCK * Vec);
    for (int j = 0; j < Vec; ++j) sum += values[k][j];
  }
  const float mean = block_sum(sum) / static_cast<float>(count);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    for (int j = 0; j < Vec && first + k * BLOCK * Vec < count; ++j)
      square += (values[k][j] - mean) * (values[k][j] - mean);
  const float rstd = rsqrtf(block_sum(square) / static_cast<float>(count) + g.eps);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (first + k * BLOCK * Vec < count) finish(g, blockIdx.x, first + k * BLOCK * Vec, values[k], mean, rstd);
}

// The mean of one part of one group, and the sum of squares around it. One block a part.
template <typename scalar_t, int Vec>
__global__ void part_moments(Groups<scalar_t> g, int64_t length, float* moments) {
  const int64_t begin = blockIdx.y * length, end = min(begin + length, g.count());
  float values[Vec], count = 0.0f, mean = 0.0f, square = 0.0f;
  for (int64_t i = begin + threadIdx.x * Vec; i < end; i += BLOCK * Vec) {
    load(values, g.x + blockIdx.x * g.count() + i);
    for (int j = 0; j < Vec; ++j) {
      const float away = values[j] - mean;
      mean += away / ++count;
      square += away * (values[j] - mean);
    }
  }
  const float middle = block_sum(count * mean) / static_cast<float>(end - begin);
  square = block_sum(square + count * (mean - middle) * (mean - middle));
  float* to = moments + 2 * (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y);
  if (threadIdx.x == 0) to[0] = middle, to[1] = square;
}

// Joins the moments of a group's parts and finishes one part. One block a part.
template <typename scalar_t, int Vec>
__global__ void finish_part(Groups<scalar_t> g, int64_t length, const float* moments) {
  const int64_t begin = blockIdx.y * length, end = min(begin + length, g.count());
  const float *of = moments + 2 * static_cast<int64_t>(blockIdx.x) * gridDim.y, count = static_cast<float>(g.count());
  const auto size = [&](int64_t part) { return static_cast<float>(min(length, g.count() - part * length)); };
  float values[Vec], mean = 0.0f, square = 0.0f;
  for (int64_t part = 0; part < gridDim.y; ++part) mean += of[2 * part] * size(part) / count;
  for (int64_t part = 0; part < gridDim.y; ++part)
    square += of[2 * part + 1] + size(part) * (of[2 * part] - mean) * (of[2 * part] - mean);
  const float rstd = rsqrtf(square / count + g.eps);
  for (int64_t i = begin + threadIdx.x * Vec; i < end; i += BLOCK * Vec) {
    load(values, g.x + blockIdx.x * g.count() + i);
    finish(g, blockIdx.x, i, values, mean, rstd);
  }
}

template <typename scalar_t, int Vec>
void launch(Groups<scalar_t> g, torch::Tensor x) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned blocks = static_cast<unsigned>(x.numel() / g.count());
  if constexpr (STRATEGY == 2) {
    const int64_t parts = std::max<int64_t>(std::min((kFill + blocks - 1) / blocks, g.count() / PART), 1);
    const int64_t length = (g.count() + parts * Vec - 1) / (parts * Vec) * Vec;
    const dim3 grid(blocks, static_cast<unsigned>((g.count() + length - 1) / length));
    auto moments = torch::empty({blocks, parts, 2}, x.options().dtype(torch::kFloat32));
    part_moments<scalar_t, Vec><<<grid, BLOCK, 0, stream>>>(g, length, moments.template data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    finish_part<scalar_t, Vec><<<grid, BLOCK, 0, stream>>>(g, length, moments.template data_ptr<float>());
    return C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  if constexpr (STRATEGY == 1) {
    if (g.count() <= kHeld * Vec * BLOCK) {
      group_norm_silu_held<scalar_t, Vec><<<blocks, BLOCK, 0, stream>>>(g);
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  group_norm_silu<scalar_t, Vec><<<blocks, BLOCK, 0, stream>>>(g);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t plane = x.size(2) * x.size(3);
  DISPATCH(x, "group_norm_silu", [&] {
    const Groups<scalar_t> g = {x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
                                out.data_ptr<scalar_t>(), groups, x.size(1) / groups, plane, static_cast<float>(eps)};
    (plane % VEC == 0 ? launch<scalar_t, VEC> : launch<scalar_t, 1>)(g, x);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
