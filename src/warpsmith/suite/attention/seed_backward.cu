// Gradients of causal attention from the saved output and log-sum-exp: one warp a query, then one warp a key.
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

// delta = sum(grad_out * out) of each query.
template <typename scalar_t>
__global__ void row_delta(const scalar_t* grad_out, const scalar_t* out, float* delta, int64_t rows, int dim) {
  const int64_t row = own_row();
  if (row >= rows) return;
  float grad[kParts], result[kParts];
  load(grad, grad_out + row * dim, dim);
  load(result, out + row * dim, dim);
  const float sum = dot(grad, result);
  if (threadIdx.x % 32 == 0) delta[row] = sum;
}

template <typename scalar_t>
__global__ void query_gradient(const scalar_t* grad_out, const scalar_t* q, const scalar_t* k, const scalar_t* v,
                               const float* lse, const float* delta, scalar_t* grad_q, int64_t rows, int64_t seq,
                               int dim, float scale) {
  const int64_t row = own_row();
  if (row >= rows) return;
  const int64_t first = row - row % seq;
  float grad[kParts], query[kParts], key[kParts], value[kParts], total[kParts] = {};
  load(grad, grad_out + row * dim, dim);
  load(query, q + row * dim, dim);
  for (int64_t j = first; j <= row; ++j) {
    load(key, k + j * dim, dim);
    load(value, v + j * dim, dim);
    const float share = expf(dot(query, key) * scale - lse[row]);
    add(total, share * (dot(grad, value) - delta[row]), key);
  }
  store(total, scale, grad_q + row * dim, dim);
}

template <typename scalar_t>
__global__ void key_gradients(const scalar_t* grad_out, const scalar_t* q, const scalar_t* k, const scalar_t* v,
                              const float* lse, const float* delta, scalar_t* grad_k, scalar_t* grad_v, int64_t rows,
                              int64_t seq, int dim, float scale) {
  const int64_t row = own_row();
  if (row >= rows) return;
  const int64_t end = row - row % seq + seq;  // past the last query of this head
  float grad[kParts], query[kParts], key[kParts], value[kParts], keys[kParts] = {}, values[kParts] = {};
  load(key, k + row * dim, dim);
  load(value, v + row * dim, dim);
  for (int64_t i = row; i < end; ++i) {
    load(query, q + i * dim, dim);
    load(grad, grad_out + i * dim, dim);
    const float share = expf(dot(query, key) * scale - lse[i]);
    add(values, share, grad);
    add(keys, share * (dot(grad, value) - delta[i]), query);
  }
  store(keys, scale, grad_k + row * dim, dim);
  store(values, 1.0f, grad_v + row * dim, dim);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor q, torch::Tensor k, torch::Tensor v,
                                    torch::Tensor out, torch::Tensor lse) {
  TORCH_CHECK(grad_out.is_contiguous() && q.is_contiguous() && k.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(v.is_contiguous() && out.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  const int64_t seq = q.size(2), rows = q.numel() / q.size(3);
  const int dim = static_cast<int>(q.size(3));
  TORCH_CHECK(dim <= 32 * kParts, "a head is at most ", 32 * kParts, " wide, not ", dim);
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  auto delta = torch::empty_like(lse);
  auto grad_q = torch::empty_like(q);
  auto grad_k = torch::empty_like(k);
  auto grad_v = torch::empty_like(v);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned blocks = blocks_for(rows);
  DISPATCH(q, "attention_backward", [&] {
    const auto* grad = grad_out.data_ptr<scalar_t>();
    const auto *qs = q.data_ptr<scalar_t>(), *ks = k.data_ptr<scalar_t>(), *vs = v.data_ptr<scalar_t>();
    const auto *sums = lse.data_ptr<float>(), *deltas = delta.data_ptr<float>();
    row_delta<scalar_t><<<blocks, kThreads, 0, stream>>>(grad, out.data_ptr<scalar_t>(), delta.data_ptr<float>(),
                                                         rows, dim);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    query_gradient<scalar_t><<<blocks, kThreads, 0, stream>>>(grad, qs, ks, vs, sums, deltas,
                                                              grad_q.data_ptr<scalar_t>(), rows, seq, dim, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    key_gradients<scalar_t><<<blocks, kThreads, 0, stream>>>(grad, qs, ks, vs, sums, deltas,
                                                             grad_k.data_ptr<scalar_t>(), grad_v.data_ptr<scalar_t>(),
                                                             rows, seq, dim, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {grad_q, grad_k, grad_v};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
