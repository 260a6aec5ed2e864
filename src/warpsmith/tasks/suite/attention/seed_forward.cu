// Causal attention with a running maximum, one warp a query; keys and values are read once a query.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How keys are read. 0: by each warp, a lane a part of the head. 1: by the block, 32 at once to shared memory, a lane
// a key; a head wider than 128 as in 0.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 128 [128, 256]
#ifndef BLOCK
#define BLOCK 128
#endif
// Rows of a head that a warp has.
// tune: ROWS = 1 [1, 2, 4]
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
constexpr unsigned kAll = 0xffffffffu;

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

__device__ float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAll, value, step));
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

// A query's running maximum, sum of shares and weighted sum of values.
template <int Parts>
struct Running {
  float largest = -INFINITY, sum = 0.0f, total[Parts] = {};
  __device__ void shrink_to(float next) {
    const float shrink = expf(largest - next);
    sum *= shrink;
#pragma unroll
    for (int i = 0; i < Parts; ++i) total[i] *= shrink;
    largest = next;
  }
};

// The head and the first row in it of a group of `together` rows; groups do not cross heads.
struct Place {
  int64_t head;
  int row;
};

__device__ Place place_of(int64_t group, int seq, int together) {
  const int64_t groups = (seq + together - 1) / together;
  return {group / groups * seq, static_cast<int>(group % groups) * together};
}

template <typename scalar_t, int Parts>
__global__ void attention(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* out, int64_t groups,
                          int seq, int dim, float scale) {
  const int64_t group = blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
  if (group >= groups) return;
  const Place at = place_of(group, seq, ROWS);
  const int end = min(at.row + ROWS, seq);
  float query[ROWS][Parts], key[Parts], value[Parts];
  Running<Parts> state[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) load(query[i], q + (at.head + min(at.row + i, seq - 1)) * dim, dim);
  for (int j = 0; j < end; ++j) {
    load(key, k + (at.head + j) * dim, dim);
    load(value, v + (at.head + j) * dim, dim);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (j > at.row + i) continue;
      const float score = dot(query[i], key) * scale;
      state[i].shrink_to(fmaxf(state[i].largest, score));
      const float share = expf(score - state[i].largest);
      state[i].sum += share;
#pragma unroll
      for (int part = 0; part < Parts; ++part) state[i].total[part] += share * value[part];
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    if (at.row + i < seq) store(state[i].total, 1.0f / state[i].sum, out + (at.head + at.row + i) * dim, dim);
}

// Copies up to Count rows of a head to shared memory, zeros past its width and past its end.
template <int Count, int Pitch, typename scalar_t>
__device__ void stage(float (*tile)[Pitch], const scalar_t* head, int row, int seq, int dim) {
  for (int i = threadIdx.x; i < Count * (Pitch - 1); i += BLOCK) {
    const int r = i / (Pitch - 1), c = i % (Pitch - 1);
    tile[r][c] = row + r < seq && c < dim ? static_cast<float>(head[static_cast<int64_t>(row + r) * dim + c]) : 0.0f;
  }
}

// The same, a block's warps sharing tiles of 32 keys, then of their values.
template <typename scalar_t, int Parts>
__global__ void attention_tiles(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* out, int seq,
                                int dim, float scale) {
  constexpr int pitch = 32 * Parts + 1;
  __shared__ float queries[kWarps * ROWS][pitch];
  __shared__ float tile[32][pitch];
  const Place at = place_of(blockIdx.x, seq, kWarps * ROWS);
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
  const int64_t first = at.head * dim;
  Running<Parts> state[ROWS];
  stage<kWarps * ROWS>(queries, q + first, at.row, seq, dim);
  for (int j = 0; j < min(at.row + kWarps * ROWS, seq); j += 32) {
    float score[ROWS] = {};
    stage<32>(tile, k + first, j, seq, dim);
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < 32 * Parts; ++d)
#pragma unroll
      for (int i = 0; i < ROWS; ++i) score[i] += queries[own + i][d] * tile[lane][d];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      score[i] = j + lane <= at.row + own + i ? score[i] * scale : -INFINITY;
      state[i].shrink_to(fmaxf(state[i].largest, warp_max(score[i])));
      score[i] = expf(score[i] - state[i].largest);
      state[i].sum += warp_sum(score[i]);
    }
    __syncthreads();
    stage<32>(tile, v + first, j, seq, dim);
    __syncthreads();
#pragma unroll 4
    for (int key = 0; key < 32; ++key)
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        const float share = __shfl_sync(kAll, score[i], key);
#pragma unroll
        for (int part = 0; part < Parts; ++part) state[i].total[part] += share * tile[key][lane + 32 * part];
      }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    if (at.row + own + i < seq)
      store(state[i].total, 1.0f / state[i].sum, out + first + static_cast<int64_t>(at.row + own + i) * dim, dim);
}

template <typename scalar_t, int Parts>
void launch(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor out) {
  const int seq = static_cast<int>(q.size(2)), dim = static_cast<int>(q.size(3));
  const int64_t heads = q.size(0) * q.size(1);
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto *qs = q.data_ptr<scalar_t>(), *ks = k.data_ptr<scalar_t>(), *vs = v.data_ptr<scalar_t>();
  auto* to = out.data_ptr<scalar_t>();
  if constexpr (STRATEGY == 1 && Parts <= 4) {
    const unsigned blocks = static_cast<unsigned>(heads * ((seq + kWarps * ROWS - 1) / (kWarps * ROWS)));
    attention_tiles<scalar_t, Parts><<<blocks, BLOCK, 0, stream>>>(qs, ks, vs, to, seq, dim, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    const int64_t groups = heads * ((seq + ROWS - 1) / ROWS);
    const unsigned blocks = static_cast<unsigned>((groups + kWarps - 1) / kWarps);
    attention<scalar_t, Parts><<<blocks, BLOCK, 0, stream>>>(qs, ks, vs, to, groups, seq, dim, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous(), "q, k and v must be contiguous");
  const int64_t dim = q.size(3);
  TORCH_CHECK(dim <= 256, "a head is at most 256 wide, not ", dim);
  auto out = torch::empty_like(q);
  DISPATCH(q, "attention", [&] {
    const auto narrow = launch<scalar_t, FITTED ? 2 : 8>, half = launch<scalar_t, FITTED || STRATEGY == 1 ? 4 : 8>;
    (FITTED && dim <= 64 ? narrow : dim <= 128 ? half : launch<scalar_t, 8>)(q, k, v, out);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
