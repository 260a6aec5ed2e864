// Gradients of causal attention from the saved output and log-sum-exp: one warp a query, then one warp a key.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How the other rows of a head are read. 0: by each warp, a lane a part of the head. 1: by the block, 32 at once to
// shared memory, a lane a row; a head wider than 128 as in 0.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 128 [128, 256]
#ifndef BLOCK
#define BLOCK 128
#endif
// Rows of a head that a warp has; a wide block's shared memory has room for one.
// tune: ROWS = 1 [1, 2]
#ifndef ROWS
#define ROWS 1
#endif
// Whether narrow heads have kernels of their own; else all take the room of the widest.
// tune: FITTED = 0 [0, 1]
#ifndef FITTED
#define FITTED 0
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kWarps = BLOCK / 32;
constexpr int kRows = STRATEGY == 1 && BLOCK > 128 ? 1 : ROWS;
constexpr unsigned kAll = 0xffffffffu;

// What is given, and what each of two kernels makes of it. Queries: own rows are (q, grad_out), others (k, v), earlier.
// Keys: own rows are (k, v), others (q, grad_out), later.
template <typename scalar_t>
struct Side {
  const scalar_t *own, *own_grad, *other, *other_grad;
  const float *lse, *delta;
  scalar_t *out, *out_grad;
  int64_t heads;
  int seq, dim;
  float scale;
};

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

// This lane's entries of a head's row, zeros past its width.
template <int Parts, typename scalar_t>
__device__ void load(float (&part)[Parts], const scalar_t* row, int dim) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Parts; ++i) part[i] = lane + 32 * i < dim ? static_cast<float>(row[lane + 32 * i]) : 0.0f;
}

template <int Parts, typename scalar_t>
__device__ void store(const float (&part)[Parts], float scale, scalar_t* row, int dim) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Parts; ++i)
    if (lane + 32 * i < dim) row[lane + 32 * i] = static_cast<scalar_t>(part[i] * scale);
}

template <int Parts>
__device__ float dot(const float (&a)[Parts], const float (&b)[Parts]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Parts; ++i) sum += a[i] * b[i];
  return warp_sum(sum);
}

// delta = sum(grad_out * out) of each query, one warp a row.
template <typename scalar_t>
__global__ void row_delta(const scalar_t* grad_out, const scalar_t* out, float* delta, int64_t rows, int dim) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (row >= rows) return;
  float grad[8], result[8];
  load(grad, grad_out + row * dim, dim);
  load(result, out + row * dim, dim);
  const float sum = dot(grad, result);
  if (threadIdx.x % 32 == 0) delta[row] = sum;
}

// A pair's share, and the gradient of its score; `query` is the pair's query among all.
template <typename scalar_t>
__device__ float2 pair_of(Side<scalar_t> s, int64_t query, float score, float grad) {
  const float share = expf(score * s.scale - s.lse[query]);
  return make_float2(share, share * (grad - s.delta[query]));
}

template <typename scalar_t, int Parts, bool Keys>
__global__ void gradient(Side<scalar_t> s) {
  const int64_t group = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  const int groups = (s.seq + kRows - 1) / kRows, row = static_cast<int>(group % groups) * kRows;
  const int64_t head = group / groups * s.seq;
  if (group >= s.heads * groups) return;
  float own[kRows][Parts], own_grad[kRows][Parts], other[Parts], other_grad[Parts];
  float total[kRows][Parts] = {}, total_grad[kRows][Parts] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    load(own[i], s.own + (head + min(row + i, s.seq - 1)) * s.dim, s.dim);
    load(own_grad[i], s.own_grad + (head + min(row + i, s.seq - 1)) * s.dim, s.dim);
  }
  for (int j = Keys ? row : 0; j < (Keys ? s.seq : min(row + kRows, s.seq)); ++j) {
    load(other, s.other + (head + j) * s.dim, s.dim);
    load(other_grad, s.other_grad + (head + j) * s.dim, s.dim);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (row + i >= s.seq || (Keys ? j < row + i : j > row + i)) continue;
      const float2 pair = pair_of(s, head + (Keys ? j : row + i), dot(own[i], other), dot(own_grad[i], other_grad));
#pragma unroll
      for (int part = 0; part < Parts; ++part) {
        total[i][part] += pair.y * other[part];
        if (Keys) total_grad[i][part] += pair.x * other_grad[part];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (row + i >= s.seq) continue;
    store(total[i], s.scale, s.out + (head + row + i) * s.dim, s.dim);
    if (Keys) store(total_grad[i], 1.0f, s.out_grad + (head + row + i) * s.dim, s.dim);
  }
}

// Copies Count rows of a head to shared memory, zeros past its width and past its end.
template <int Count, int Pitch, typename scalar_t>
__device__ void stage(float (*tile)[Pitch], const scalar_t* head, int row, int seq, int dim) {
  for (int i = threadIdx.x; i < Count * (Pitch - 1); i += BLOCK) {
    const int r = i / (Pitch - 1), c = i % (Pitch - 1);
    tile[r][c] = row + r < seq && c < dim ? static_cast<float>(head[static_cast<int64_t>(row + r) * dim + c]) : 0.0f;
  }
}

// The same, a block's warps sharing tiles of 32 other rows.
template <typename scalar_t, int Parts, bool Keys>
__global__ void gradient_tiles(Side<scalar_t> s) {
  constexpr int pitch = 32 * Parts + 1, together = kWarps * kRows;
  __shared__ float own[together][pitch], own_grad[together][pitch], other[32][pitch], other_grad[32][pitch];
  const int groups = (s.seq + together - 1) / together, row0 = static_cast<int>(blockIdx.x % groups) * together;
  const int64_t head = blockIdx.x / groups * static_cast<int64_t>(s.seq), first = head * s.dim;
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * kRows;
  float total[kRows][Parts] = {}, total_grad[kRows][Parts] = {};
  stage<together>(own, s.own + first, row0, s.seq, s.dim);
  stage<together>(own_grad, s.own_grad + first, row0, s.seq, s.dim);
  for (int j = Keys ? row0 / 32 * 32 : 0; j < (Keys ? s.seq : min(row0 + together, s.seq)); j += 32) {
    stage<32>(other, s.other + first, j, s.seq, s.dim);
    stage<32>(other_grad, s.other_grad + first, j, s.seq, s.dim);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float score = 0.0f, grad = 0.0f;
#pragma unroll 8
      for (int d = 0; d < 32 * Parts; ++d) {
        score += own[mine + i][d] * other[lane][d];
        grad += own_grad[mine + i][d] * other_grad[lane][d];
      }
      const int row = row0 + mine + i, place = j + lane;
      const bool counts = row < s.seq && place < s.seq && (Keys ? place >= row : place <= row);
      const float2 pair = counts ? pair_of(s, head + (Keys ? place : row), score, grad) : make_float2(0.0f, 0.0f);
      for (int from = 0; from < 32; ++from) {
        const float share = __shfl_sync(kAll, pair.x, from), slope = __shfl_sync(kAll, pair.y, from);
#pragma unroll
        for (int part = 0; part < Parts; ++part) {
          total[i][part] += slope * other[from][lane + 32 * part];
          if (Keys) total_grad[i][part] += share * other_grad[from][lane + 32 * part];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + mine + i;
    if (row >= s.seq) continue;
    store(total[i], s.scale, s.out + (head + row) * s.dim, s.dim);
    if (Keys) store(total_grad[i], 1.0f, s.out_grad + (head + row) * s.dim, s.dim);
  }
}

template <typename scalar_t, int Parts, bool Keys>
void launch(Side<scalar_t> s, cudaStream_t stream) {
  if constexpr (STRATEGY == 1 && Parts <= 4) {
    const int64_t blocks = s.heads * ((s.seq + kWarps * kRows - 1) / (kWarps * kRows));
    gradient_tiles<scalar_t, Parts, Keys><<<static_cast<unsigned>(blocks), BLOCK, 0, stream>>>(s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    const int64_t groups = s.heads * ((s.seq + kRows - 1) / kRows);
    gradient<scalar_t, Parts, Keys><<<static_cast<unsigned>((groups + kWarps - 1) / kWarps), BLOCK, 0, stream>>>(s);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor q, torch::Tensor k, torch::Tensor v,
                                    torch::Tensor out, torch::Tensor lse) {
  TORCH_CHECK(grad_out.is_contiguous() && q.is_contiguous() && k.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(v.is_contiguous() && out.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  const int64_t heads = q.size(0) * q.size(1), rows = lse.numel();
  const int seq = static_cast<int>(q.size(2)), dim = static_cast<int>(q.size(3));
  TORCH_CHECK(dim <= 256, "a head is at most 256 wide, not ", dim);
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  auto delta = torch::empty_like(lse);
  auto grad_q = torch::empty_like(q), grad_k = torch::empty_like(k), grad_v = torch::empty_like(v);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto *sums = lse.data_ptr<float>(), *deltas = delta.data_ptr<float>();
  DISPATCH(q, "attention_backward", [&] {
    const auto *grad = grad_out.data_ptr<scalar_t>(), *qs = q.data_ptr<scalar_t>();
    const auto *ks = k.data_ptr<scalar_t>(), *vs = v.data_ptr<scalar_t>();
    row_delta<scalar_t><<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), BLOCK, 0, stream>>>(
        grad, out.data_ptr<scalar_t>(), delta.data_ptr<float>(), rows, dim);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const Side<scalar_t> queries = {qs, grad, ks, vs, sums, deltas, grad_q.data_ptr<scalar_t>(), nullptr,
                                    heads, seq, dim, scale};
    const Side<scalar_t> keys = {ks, vs, qs, grad, sums, deltas, grad_k.data_ptr<scalar_t>(),
                                 grad_v.data_ptr<scalar_t>(), heads, seq, dim, scale};
    constexpr int small = FITTED ? 2 : 8, middle = FITTED || STRATEGY == 1 ? 4 : 8;
    const bool narrow = FITTED && dim <= 64, half = dim <= 128;
    (narrow ? launch<scalar_t, small, false> : half ? launch<scalar_t, middle, false> : launch<scalar_t, 8, false>)(
        queries, stream);
    (narrow ? launch<scalar_t, small, true> : half ? launch<scalar_t, middle, true> : launch<scalar_t, 8, true>)(
        keys, stream);
  });
  return {grad_q, grad_k, grad_v};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
