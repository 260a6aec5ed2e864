// Causal attention with a running maximum, one warp a query; keys and values are read once a query.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kThreads = 128;  // four warps a block, one row each
constexpr int kParts = 8;      // entries of a head that a lane holds: heads of up to 256

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// This lane's entries of a head's row, zeros past its width.
template <typename scalar_t>
__device__ void load(float (&part)[kParts], const scalar_t* row, int dim) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kParts; ++i) part[i] = lane + 32 * i < dim ? static_cast<float>(row[lane + 32 * i]) : 0.0f;
}

template <typename scalar_t>
__device__ void store(const float (&part)[kParts], float scale, scalar_t* row, int dim) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (lane + 32 * i < dim) row[lane + 32 * i] = static_cast<scalar_t>(part[i] * scale);
}

__device__ float dot(const float (&a)[kParts], const float (&b)[kParts]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kParts; ++i) sum += a[i] * b[i];
  return warp_sum(sum);
}

__device__ void add(float (&to)[kParts], float factor, const float (&from)[kParts]) {
#pragma unroll
  for (int i = 0; i < kParts; ++i) to[i] += factor * from[i];
}

// The row of this warp among all rows of all heads.
__device__ int64_t own_row() { return blockIdx.x * static_cast<int64_t>(kThreads / 32) + threadIdx.x / 32; }

unsigned blocks_for(int64_t rows) { return static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32)); }

template <typename scalar_t>
__global__ void attention(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* out, int64_t rows,
                          int64_t seq, int dim, float scale) {
  const int64_t row = own_row();
  if (row >= rows) return;
  const int64_t first = row - row % seq;  // the first row of this head
  float query[kParts], key[kParts], value[kParts], total[kParts] = {};
  load(query, q + row * dim, dim);
  float largest = -INFINITY, sum = 0.0f;
  for (int64_t j = first; j <= row; ++j) {
    load(key, k + j * dim, dim);
    load(value, v + j * dim, dim);
    const float score = dot(query, key) * scale;
    const float next = fmaxf(largest, score);
    const float shrink = expf(largest - next), share = expf(score - next);
    sum = sum * shrink + share;
    for (int i = 0; i < kParts; ++i) total[i] *= shrink;
    add(total, share, value);
    largest = next;
  }
  store(total, 1.0f / sum, out + row * dim, dim);
}

}  // namespace

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous(), "q, k and v must be contiguous");
  const int64_t seq = q.size(2), dim = q.size(3), rows = q.numel() / dim;
  TORCH_CHECK(dim <= 32 * kParts, "a head is at most ", 32 * kParts, " wide, not ", dim);
  auto out = torch::empty_like(q);
  DISPATCH(q, "attention", [&] {
    attention<scalar_t><<<blocks_for(rows), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<scalar_t>(), k.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, seq,
        static_cast<int>(dim), 1.0f / sqrtf(static_cast<float>(dim)));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
