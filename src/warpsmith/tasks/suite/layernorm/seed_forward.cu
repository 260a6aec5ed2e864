// LayerNorm over the last axis, one block a row; two passes, so that the variance loses no digits.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How a row is worked on. 0: a block a row, read three times. 1: a block a row, held in registers. 2: a warp a row,
// held in registers. A row too long to be held is worked on as in 0.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once (a pack), where the row's length allows.
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif
// Where rows are few: the least columns of a part when several blocks share a row; 0: they never do.
// tune: SPLIT = 0 [0, 4096]
#ifndef SPLIT
#define SPLIT 0
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kHeld = 8;  // packs of a row that a thread can hold

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <typename scalar_t>
struct Rows {
  const scalar_t *x, *weight, *bias;
  scalar_t* out;
  int64_t rows, cols;
  float eps;
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

// The sum over a warp or over the block, the same in every thread.
template <int Team>
__device__ float team_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if constexpr (Team > 32) {
    __shared__ float partial[Team / 32];
    __syncthreads();  // a sum before this one may still be read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < Team / 32; ++warp) value += partial[warp];
  }
  return value;
}

// Normalizes the neighbours at column `i` of a row.
template <int Vec, typename scalar_t>
__device__ void finish(Rows<scalar_t> r, int64_t row, int64_t i, const float* values, float mean, float rstd) {
  float gain[Vec], shift[Vec];
  load(gain, r.weight + i);
  load(shift, r.bias + i);
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) result.at[j] = static_cast<scalar_t>((values[j] - mean) * rstd * gain[j] + shift[j]);
  *reinterpret_cast<Pack<scalar_t, Vec>*>(r.out + row * r.cols + i) = result;
}

template <typename scalar_t, int Vec>
__global__ void layernorm(Rows<scalar_t> r) {
  const scalar_t* row = r.x + blockIdx.x * r.cols;
  float values[Vec], sum = 0.0f, square = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < r.cols; i += BLOCK * Vec) {
    load(values, row + i);
    for (int j = 0; j < Vec; ++j) sum += values[j];
  }
  const float mean = team_sum<BLOCK>(sum) / static_cast<float>(r.cols);
  for (int64_t i = threadIdx.x * Vec; i < r.cols; i += BLOCK * Vec) {
    load(values, row + i);
    for (int j = 0; j < Vec; ++j) square += (values[j] - mean) * (values[j] - mean);
  }
  const float rstd = rsqrtf(team_sum<BLOCK>(square) / static_cast<float>(r.cols) + r.eps);
  for (int64_t i = threadIdx.x * Vec; i < r.cols; i += BLOCK * Vec) {
    load(values, row + i);
    finish<Vec>(r, blockIdx.x, i, values, mean, rstd);
  }
}

// A team a row; each thread holds its part of the row.
template <typename scalar_t, int Vec, int Team>
__global__ void layernorm_held(Rows<scalar_t> r) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / Team) + threadIdx.x / Team;
  if (row >= r.rows) return;
  const int first = threadIdx.x % Team * Vec, cols = static_cast<int>(r.cols);
  float values[kHeld][Vec], sum = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (first + k * Team * Vec >= cols) continue;
    load(values[k], r.x + row * r.cols + first + k * Team * Vec);
    for (int j = 0; j < Vec; ++j) sum += values[k][j];
  }
  const float mean = team_sum<Team>(sum) / static_cast<float>(cols);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    for (int j = 0; j < Vec && first + k * Team * Vec < cols; ++j)
      square += (values[k][j] - mean) * (values[k][j] - mean);
  const float rstd = rsqrtf(team_sum<Team>(square) / static_cast<float>(cols) + r.eps);
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (first + k * Team * Vec < cols) finish<Vec>(r, row, first + k * Team * Vec, values[k], mean, rstd);
}

// The mean of one part of one row, and the sum of squares around it. One block a part; read once.
template <typename scalar_t, int Vec>
__global__ void part_moments(Rows<scalar_t> r, int64_t length, float* moments) {
  const int64_t begin = blockIdx.x * length, end = min(begin + length, r.cols);
  float values[Vec], count = 0.0f, mean = 0.0f, square = 0.0f;
  for (int64_t i = begin + threadIdx.x * Vec; i < end; i += BLOCK * Vec) {
    load(values, r.x + blockIdx.y * r.cols + i);
    for (int j = 0; j < Vec; ++j) {
      const float away = values[j] - mean;
      mean += away / ++count;
      square += away * (values[j] - mean);
    }
  }
  const float middle = team_sum<BLOCK>(count * mean) / static_cast<float>(end - begin);
  square = team_sum<BLOCK>(square + count * (mean - middle) * (mean - middle));
  float* to = moments + 2 * (blockIdx.y * gridDim.x + blockIdx.x);
  if (threadIdx.x == 0) to[0] = middle, to[1] = square;
}

// Joins the moments of a row's parts and normalizes one part. One block a part.
template <typename scalar_t, int Vec>
__global__ void normalize_part(Rows<scalar_t> r, int64_t length, const float* moments) {
  const int64_t begin = blockIdx.x * length, end = min(begin + length, r.cols);
  const float* of = moments + 2 * blockIdx.y * gridDim.x;
  const auto size = [&](int64_t part) { return static_cast<float>(min(length, r.cols - part * length)); };
  float values[Vec], mean = 0.0f, square = 0.0f;
  for (int64_t part = 0; part < gridDim.x; ++part) mean += of[2 * part] * size(part) / static_cast<float>(r.cols);
  for (int64_t part = 0; part < gridDim.x; ++part)
    square += of[2 * part + 1] + size(part) * (of[2 * part] - mean) * (of[2 * part] - mean);
  const float rstd = rsqrtf(square / static_cast<float>(r.cols) + r.eps);
  for (int64_t i = begin + threadIdx.x * Vec; i < end; i += BLOCK * Vec) {
    load(values, r.x + blockIdx.y * r.cols + i);
    finish<Vec>(r, blockIdx.y, i, values, mean, rstd);
  }
}

template <typename scalar_t, int Vec>
void launch(Rows<scalar_t> r, torch::Tensor x) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  if constexpr (SPLIT > 0) {
    if (const int64_t parts = std::min(1024 / r.rows, r.cols / SPLIT); parts > 1) {
      const int64_t length = (r.cols + parts * Vec - 1) / (parts * Vec) * Vec;
      const dim3 grid(static_cast<unsigned>((r.cols + length - 1) / length), static_cast<unsigned>(r.rows));
      auto moments = torch::empty({r.rows, parts, 2}, x.options().dtype(torch::kFloat32));
      part_moments<scalar_t, Vec><<<grid, BLOCK, 0, stream>>>(r, length, moments.template data_ptr<float>());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      normalize_part<scalar_t, Vec><<<grid, BLOCK, 0, stream>>>(r, length, moments.template data_ptr<float>());
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  if constexpr (STRATEGY > 0) {
    constexpr int team = STRATEGY == 2 ? 32 : BLOCK, together = BLOCK / team;
    const unsigned blocks = static_cast<unsigned>((r.rows + together - 1) / together);
    if (r.cols <= kHeld * Vec * team) {
      layernorm_held<scalar_t, Vec, team><<<blocks, BLOCK, 0, stream>>>(r);
      return C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  }
  layernorm<scalar_t, Vec><<<static_cast<unsigned>(r.rows), BLOCK, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  DISPATCH(x, "layernorm", [&] {
    const Rows<scalar_t> r = {x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
                              out.data_ptr<scalar_t>(), x.numel() / cols, cols, static_cast<float>(eps)};
    if (cols % VEC == 0)
      launch<scalar_t, VEC>(r, x);
    else
      launch<scalar_t, 1>(r, x);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
