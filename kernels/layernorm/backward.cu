// Gradients of LayerNorm in one launch, a cooperative one where there is much to do; there every element is read once and
// written once (but for strips). Resident blocks, made of teams of threads that have a row at a time. A thread always has the same columns, so
// it keeps their gains and sums their gradients in registers over all rows of its team. It prefetches its own packs of
// the rows to come with cp.async, so memory stays busy during a row's reduction. At the end the blocks leave their column
// sums in global memory, meet at a grid barrier and add them up, always in the same order.
// Where there is little to do, no block waits for another: some have a row each, others a strip of columns of all rows.
// Rows that do not begin on 16 bytes are read element by element; those too long for a team, or where there is little to
// do for a block, take two plain kernels.
// A few rows of megabytes are cut into strips of columns instead: a thread has all rows of its columns, so column sums
// need nobody else. Row sums need a first reading of everything and a grid barrier; the second reading goes backwards, so
// that it begins with what the L2 still has.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// Threads of a block at most, 1024 on an SM; rows longer than these can hold take up to 1024.
// tune: THREADS = 1024 [512, 1024]
#ifndef THREADS
#define THREADS 1024
#endif
// Packs of 16 bytes that a thread has in flight.
// tune: SLOTS = 12 [8, 12]
#ifndef SLOTS
#define SLOTS 12
#endif
// Whether 16-bit rows of a few KB have one warp each, which needs no barrier, instead of a pack a thread.
// tune: ALONE = 1 [0, 1]
#ifndef ALONE
#define ALONE 1
#endif
// Elements up to which no block waits for another.
#ifndef SMALL
#define SMALL 1048576
#endif
// Blocks at most, whatever the GPU has room for.
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 65536
#endif
// Up to 16 rows of at least this many packs are cut into strips.
#ifndef STRIP_PACKS
#define STRIP_PACKS 65536
#endif
// Rows of more columns than this take the plain kernels.
#ifndef LONG_COLS
#define LONG_COLS 9216
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kMostTeams = 15;  // each has a named barrier, and barrier 0 is the block's

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

// Sixteen bytes as floats, and back, rounded to nearest; two 16-bit numbers of a word at once.
template <typename scalar_t, int Vec>
__device__ __forceinline__ void widen(uint4 bits, float (&v)[Vec]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      v[j] = __uint_as_float(words[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&words[j]));
      v[2 * j] = two.x, v[2 * j + 1] = two.y;
    } else {
      v[2 * j] = __uint_as_float(words[j] << 16), v[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
    }
  }
}

template <typename scalar_t, int Vec>
__device__ __forceinline__ uint4 narrow(const float (&v)[Vec]) {
  uint32_t words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      words[j] = __float_as_uint(v[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const __half2 two = __floats2half2_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    } else {
      const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The same of a pack of any size.
template <typename scalar_t, int Vec>
__device__ __forceinline__ void widen(const Pack<scalar_t, Vec>& pack, float (&v)[Vec]) {
  if constexpr (sizeof(pack) == 16) {
    widen<scalar_t>(reinterpret_cast<const uint4&>(pack), v);
  } else {
#pragma unroll
    for (int j = 0; j < Vec; ++j) v[j] = static_cast<float>(pack.at[j]);
  }
}

template <typename scalar_t>
struct Rows {
  const scalar_t *grad_out, *x, *weight;
  const float *mean, *rstd;
  scalar_t *grad_x, *grad_weight, *grad_bias;
  float2* parts;  // column sums of each block, for gain and bias
  int rows, cols;
  int team, teams;  // threads of a team, teams of a block
};

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

// Two sums over a team, the same in each of its threads. `half` alternates from row to row, so that one barrier is enough.
__device__ float2 team_sum(float2 sum, int team, int threads, int half) {
  __shared__ float2 partial[2][32];
  sum.x = warp_sum(sum.x), sum.y = warp_sum(sum.y);
  if (threads == 32) return sum;
  const int lane = threadIdx.x % 32, warps = threads / 32;
  if (lane == 0) partial[half][threadIdx.x / 32] = sum;
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(threads) : "memory");
  const float2 part = lane < warps ? partial[half][team * warps + lane] : make_float2(0.0f, 0.0f);
  return make_float2(warp_sum(part.x), warp_sum(part.y));
}

__device__ __forceinline__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// A pack stays one: else the compiler keeps the widened numbers from one use to the next, in twice the registers.
template <typename Some>
__device__ __forceinline__ void stay_packed(Some& pack) {
  uint4 bits = reinterpret_cast<const uint4&>(pack);
  asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
  pack = reinterpret_cast<const Some&>(bits);
}

// Teams of one warp hold so much that fewer threads fit.
constexpr bool alone(int vec, int packs) { return vec == 8 && packs > 2; }
constexpr int most_threads(int vec, int packs) { return !alone(vec, packs) ? 1024 : packs > 3 ? 384 : 512; }
constexpr int stages_of(int vec, int packs) { return alone(vec, packs) ? 4 : SLOTS / (2 * packs); }

// With a policy for the L2.
__device__ __forceinline__ void copy16(void* to, const void* from, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "l"(policy)
               : "memory");
}

template <typename scalar_t, int Vec, int Packs, bool Prefetched>
__global__ void __launch_bounds__(most_threads(Vec, Packs), 1) fused(Rows<scalar_t> r) {
  using Some = Pack<scalar_t, Vec>;
  constexpr int stages = Prefetched ? stages_of(Vec, Packs) : 1;
  extern __shared__ uint4 memory[];
  const int team = threadIdx.x / r.team, member = threadIdx.x - team * r.team;
  const int stride = gridDim.x * r.teams;
  const auto column = [&](int k) { return (k * r.team + member) * Vec; };

  Some gain[Packs];
  float gains[Packs][Vec], biases[Packs][Vec];
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (column(k) < r.cols) gain[k] = *reinterpret_cast<const Some*>(r.weight + column(k));
#pragma unroll
    for (int j = 0; j < Vec; ++j) {
      if (column(k) >= r.cols) gain[k].at[j] = static_cast<scalar_t>(0.0f);
      gains[k][j] = biases[k][j] = 0.0f;
    }
  }

  // A thread reads only what it copied itself, so no barrier guards the slots. Every call makes one group.
  const auto prefetch = [&](int row, int stage) {
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      const int64_t at = static_cast<int64_t>(row) * r.cols + column(k);
      uint4* slot = memory + (stage * 2 * Packs + 2 * k) * blockDim.x + threadIdx.x;
      if (row < r.rows && column(k) < r.cols) copy16(slot, r.grad_out + at), copy16(slot + blockDim.x, r.x + at);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  int row = blockIdx.x * r.teams + team, stage = 0, half = 0;
  if constexpr (Prefetched) {
#pragma unroll
    for (int s = 0; s < stages; ++s) prefetch(row + s * stride, s);
  }
  float next_mean = row < r.rows ? r.mean[row] : 0.0f, next_rstd = row < r.rows ? r.rstd[row] : 0.0f;
  for (; row < r.rows; row += stride, half ^= 1) {
    const float mean = next_mean, rstd = next_rstd;
    if (row + stride < r.rows) next_mean = r.mean[row + stride], next_rstd = r.rstd[row + stride];
    const int64_t start = static_cast<int64_t>(row) * r.cols;
    Some grad[Packs], x[Packs];
    if constexpr (Prefetched) asm volatile("cp.async.wait_group %0;" ::"n"(stages - 1) : "memory");
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (column(k) < r.cols) {
        if constexpr (Prefetched) {
          const uint4* slot = memory + (stage * 2 * Packs + 2 * k) * blockDim.x + threadIdx.x;
          grad[k] = *reinterpret_cast<const Some*>(slot), x[k] = *reinterpret_cast<const Some*>(slot + blockDim.x);
        } else {
          grad[k] = *reinterpret_cast<const Some*>(r.grad_out + start + column(k));
          x[k] = *reinterpret_cast<const Some*>(r.x + start + column(k));
        }
      } else {
#pragma unroll
        for (int j = 0; j < Vec; ++j) grad[k].at[j] = x[k].at[j] = static_cast<scalar_t>(0.0f);
      }
    if constexpr (Prefetched) {
      prefetch(row + stages * stride, stage);  // into the slots just read
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    float2 turned = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      float g[Vec], v[Vec], w[Vec];
      widen(grad[k], g), widen(x[k], v), widen(gain[k], w);
#pragma unroll
      for (int j = 0; j < Vec; ++j) {
        const float hat = (v[j] - mean) * rstd, inner = g[j] * w[j];  // zero where there is no element, as g is
        gains[k][j] += g[j] * hat;
        biases[k][j] += g[j];
        turned.x += inner;
        turned.y += inner * hat;
      }
    }
    turned = team_sum(turned, team, r.team, half);
    turned.x /= static_cast<float>(r.cols), turned.y /= static_cast<float>(r.cols);
    if constexpr (alone(Vec, Packs)) {
#pragma unroll
      for (int k = 0; k < Packs; ++k) stay_packed(grad[k]), stay_packed(x[k]), stay_packed(gain[k]);
    }
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      if (column(k) >= r.cols) continue;
      float g[Vec], v[Vec], w[Vec];
      widen(grad[k], g), widen(x[k], v), widen(gain[k], w);
#pragma unroll
      for (int j = 0; j < Vec; ++j) v[j] = (g[j] * w[j] - turned.x - (v[j] - mean) * rstd * turned.y) * rstd;
      scalar_t* to = r.grad_x + start + column(k);
      if constexpr (sizeof(Some) == 16)
        __stcs(reinterpret_cast<uint4*>(to), narrow<scalar_t>(v));
      else
        for (int j = 0; j < Vec; ++j) to[j] = static_cast<scalar_t>(v[j]);
    }
  }

  // The block's column sums: its teams' by way of shared memory.
  if constexpr (Prefetched) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  float2* shared = reinterpret_cast<float2*>(memory);
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < Vec; ++j)
      if (column(k) < r.cols) 
        shared[team * r.cols + column(k) + j] = make_float2(gains[k][j], biases[k][j]);
  __syncthreads();
  for (int col = threadIdx.x; col < r.cols; col += blockDim.x) {
    float2 sum = {0.0f, 0.0f};
    for (int i = 0; i < r.teams; ++i) sum.x += shared[i * r.cols + col].x, sum.y += shared[i * r.cols + col].y;
    r.parts[static_cast<int64_t>(blockIdx.x) * r.cols + col] = sum;
  }
  cooperative_groups::this_grid().sync();

  // The sums of all blocks: 8 columns a block at a time, and quarters of its warps share the parts.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int first = blockIdx.x * 8; first < r.cols; first += gridDim.x * 8) {
    const int col = first + lane % 8;
    float2 sum = {0.0f, 0.0f};
    if (col < r.cols)
      for (int i = warp * 4 + lane / 8; i < gridDim.x; i += warps * 4) {
        const float2 part = __ldcg(r.parts + static_cast<int64_t>(i) * r.cols + col);
        sum.x += part.x, sum.y += part.y;
      }
#pragma unroll
    for (int step = 8; step < 32; step *= 2) {
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, step);
      sum.y += __shfl_xor_sync(0xffffffffu, sum.y, step);
    }
    __syncthreads();  // the shared memory may still be read
    if (lane < 8) shared[warp * 8 + lane] = sum;
    __syncthreads();
    for (int i = warp; i < 8; i += warps) {  // then a warp a column
      sum = lane < warps ? shared[lane * 8 + i] : make_float2(0.0f, 0.0f);
      sum.x = warp_sum(sum.x), sum.y = warp_sum(sum.y);
      if (lane == 0 && first + i < r.cols) {
        r.grad_weight[first + i] = static_cast<scalar_t>(sum.x);
        r.grad_bias[first + i] = static_cast<scalar_t>(sum.y);
      }
    }
  }
}

constexpr int kStripRows = 16, kStripThreads = 256, kStripBlocks = 2;  // blocks on an SM
constexpr int kBatch = 4, kBatches = kStripRows / kBatch, kAhead = 3;  // rows that a thread asks for at once; batches of them
                                                                           // that are on their way: 96 KB a block

// Few and very long rows of floats. `sums` has kStripRows pairs of each block.
__global__ void __launch_bounds__(kStripThreads, kStripBlocks) strips(Rows<float> r, float2* sums) {
  extern __shared__ float4 slots[];  // gradients and elements on their way
  __shared__ float2 partial[kStripThreads / 32][kStripRows], known[kStripRows], turned[kStripRows];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int packs = r.cols / 4, slice = (packs + gridDim.x - 1) / gridDim.x;
  const int begin = blockIdx.x * slice, end = min(begin + slice, packs);
  const auto *grads = reinterpret_cast<const float4*>(r.grad_out), *values = reinterpret_cast<const float4*>(r.x);
  const auto place = [&](int row, int pack) { return static_cast<int64_t>(row) * packs + pack; };
  const auto slot = [&](int stage, int i, int which) -> float4& {
    return slots[((stage * kBatch + i) * 2 + which) * kStripThreads + threadIdx.x];
  };
  // A thread reads only what it copied itself, so no barrier guards the slots. Every call makes one group of copies.
  const auto ask = [&](int stage, int batch, int pack, uint64_t policy) {
    if (pack >= begin && pack < end) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (const int row = batch * kBatch + i; row < r.rows) {
          copy16(&slot(stage, i, 0), grads + place(row, pack), policy);
          copy16(&slot(stage, i, 1), values + place(row, pack), policy);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  // The next batch, whose slots then take the one that is kAhead after it; `step` is how far away its columns are.
  const auto take = [&](int& stage, int batch, int pack, int step, uint64_t policy, float4(&g)[kBatch], float4(&x)[kBatch]) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 1) : "memory");
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (batch * kBatch + i < r.rows) g[i] = slot(stage, i, 0), x[i] = slot(stage, i, 1);
      else g[i] = x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int next = batch + kAhead;
    ask(stage, next % kBatches, next < kBatches ? pack : pack + step, policy);
    stage = stage + 1 == kAhead ? 0 : stage + 1;
  };
  if (threadIdx.x < kStripRows)
    known[threadIdx.x] = threadIdx.x < r.rows ? make_float2(r.mean[threadIdx.x], r.rstd[threadIdx.x])
                                              : make_float2(0.0f, 0.0f);
  __syncthreads();

  uint64_t drop, normal;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(drop));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
  float2 own[kStripRows] = {};
  int last = begin + threadIdx.x, stage = 0;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ask(i, i, last, drop);
  for (int pack = last; pack < end; pack += kStripThreads) {
    last = pack;
    const uint64_t policy = (end - 1 - pack) / kStripThreads > 1 ? drop : normal;  // the L2 shall keep a step: 35 MB
    const float4 w = __ldg(reinterpret_cast<const float4*>(r.weight) + pack);
    float4 gain = {}, bias = {};
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      float4 g[kBatch], x[kBatch];
      take(stage, batch, pack, kStripThreads, policy, g, x);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = batch * kBatch + i;
        const float2 k = known[row];
        const auto add = [&](float grad, float value, float weight, float& to_gain, float& to_bias) {
          const float hat = (value - k.x) * k.y, inner = grad * weight;
          to_gain += grad * hat, to_bias += grad;
          own[row].x += inner, own[row].y += inner * hat;
        };
        add(g[i].x, x[i].x, w.x, gain.x, bias.x), add(g[i].y, x[i].y, w.y, gain.y, bias.y);
        add(g[i].z, x[i].z, w.z, gain.z, bias.z), add(g[i].w, x[i].w, w.w, gain.w, bias.w);
      }
    }
    __stcs(reinterpret_cast<float4*>(r.grad_weight) + pack, gain);
    __stcs(reinterpret_cast<float4*>(r.grad_bias) + pack, bias);
  }
  // Memory shall not idle while the grid meets: the first batches of the second reading.
  asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ask(i, i, last, drop);
  stage = 0;
#pragma unroll
  for (int row = 0; row < kStripRows; ++row) {
    const float2 sum = make_float2(warp_sum(own[row].x), warp_sum(own[row].y));
    if (lane == 0) partial[warp][row] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kStripRows) {
    float2 sum = {0.0f, 0.0f};
    for (int i = 0; i < kStripThreads / 32; ++i) sum.x += partial[i][threadIdx.x].x, sum.y += partial[i][threadIdx.x].y;
    sums[blockIdx.x * kStripRows + threadIdx.x] = sum;
  }
  cooperative_groups::this_grid().sync();

  // Every block adds up all blocks' sums, a warp two rows.
  for (int row = warp; row < r.rows; row += kStripThreads / 32) {
    float2 sum = {0.0f, 0.0f};
    for (int i = lane; i < gridDim.x; i += 32) {
      const float2 part = __ldcg(sums + i * kStripRows + row);
      sum.x += part.x, sum.y += part.y;
    }
    sum.x = warp_sum(sum.x), sum.y = warp_sum(sum.y);
    if (lane == 0) turned[row] = make_float2(sum.x / static_cast<float>(r.cols), sum.y / static_cast<float>(r.cols));
  }
  __syncthreads();
  for (int pack = last; pack >= begin && pack < end; pack -= kStripThreads) {
    const float4 w = __ldg(reinterpret_cast<const float4*>(r.weight) + pack);
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      float4 g[kBatch], x[kBatch];
      take(stage, batch, pack, -kStripThreads, drop, g, x);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = batch * kBatch + i;
        if (row >= r.rows) continue;
        const float2 k = known[row], t = turned[row];
        const auto gradient = [&](float grad, float value, float weight) {
          return (grad * weight - t.x - (value - k.x) * k.y * t.y) * k.y;
        };
        __stcs(reinterpret_cast<float4*>(r.grad_x) + place(row, pack),
               make_float4(gradient(g[i].x, x[i].x, w.x), gradient(g[i].y, x[i].y, w.y),
                           gradient(g[i].z, x[i].z, w.z), gradient(g[i].w, x[i].w, w.w)));
      }
    }
  }
}

// The elements of a row from `column` on, zeros beyond its end.
template <bool Aligned, typename scalar_t>
__device__ Pack<scalar_t, 16 / sizeof(scalar_t)> fetch(const scalar_t* row, int column, int cols) {
  constexpr int vec = 16 / sizeof(scalar_t);
  Pack<scalar_t, vec> pack;
  if constexpr (Aligned) {
    pack = *reinterpret_cast<const Pack<scalar_t, vec>*>(row + column);
  } else {
#pragma unroll
    for (int j = 0; j < vec; ++j) pack.at[j] = column + j < cols ? row[column + j] : static_cast<scalar_t>(0.0f);
  }
  return pack;
}

// The gradients of gain and bias need no sum over a row, as mean and rstd are given: reading everything a second time, mostly
// from the L2, costs less than a grid that meets. The first `strips` blocks have 64 bytes of each row, four threads a row;
// the others have a row each, a pack a thread. Little code: it is cold as well.
template <typename scalar_t, int Threads, bool Aligned>
__global__ void __launch_bounds__(Threads, Aligned ? 1024 / Threads : 1) small(Rows<scalar_t> r, int strips, float share) {
  constexpr int vec = 16 / sizeof(scalar_t), warps = Threads / 32, width = 4 * vec;
  using Some = Pack<scalar_t, vec>;
  __shared__ float2 partial[warps * width];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blockIdx.x < strips) {
    const int column = blockIdx.x * width + threadIdx.x % 4 * vec;
    float2 sums[vec] = {};
    if (column < r.cols) {
#pragma unroll 4
      for (int row = threadIdx.x / 4; row < r.rows; row += Threads / 4) {
        const auto grad = fetch<Aligned>(r.grad_out + row * r.cols, column, r.cols);
        const auto x = fetch<Aligned>(r.x + row * r.cols, column, r.cols);
        const float mean = r.mean[row], rstd = r.rstd[row];
#pragma unroll
        for (int j = 0; j < vec; ++j) {
          const float g = static_cast<float>(grad.at[j]);
          sums[j].x += g * ((static_cast<float>(x.at[j]) - mean) * rstd), sums[j].y += g;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < vec; ++j) {
#pragma unroll
      for (int step = 16; step >= 4; step /= 2) {
        sums[j].x += __shfl_xor_sync(0xffffffffu, sums[j].x, step);
        sums[j].y += __shfl_xor_sync(0xffffffffu, sums[j].y, step);
      }
      if (lane < 4) partial[warp * width + lane * vec + j] = sums[j];
    }
    __syncthreads();
    const int col = blockIdx.x * width + threadIdx.x;
    if (threadIdx.x >= width || col >= r.cols) return;
    float2 sum = {0.0f, 0.0f};
    for (int i = 0; i < warps; ++i)
      sum.x += partial[i * width + threadIdx.x].x, sum.y += partial[i * width + threadIdx.x].y;
    r.grad_weight[col] = static_cast<scalar_t>(sum.x);
    r.grad_bias[col] = static_cast<scalar_t>(sum.y);
    return;
  }
  const int row = blockIdx.x - strips, column = threadIdx.x * vec, start = row * r.cols;
  const bool present = column < r.cols;
  Some grad = {}, x = {}, gain = {};
  if (present) {
    grad = fetch<Aligned>(r.grad_out + start, column, r.cols);
    x = fetch<Aligned>(r.x + start, column, r.cols);
    gain = fetch<Aligned>(r.weight, column, r.cols);
  }
  const float mean = r.mean[row], rstd = r.rstd[row];
  float inner[vec], hat[vec];
  float2 turned = {0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < vec; ++j) {
    inner[j] = static_cast<float>(grad.at[j]) * static_cast<float>(gain.at[j]);  // zero where there is no element
    hat[j] = (static_cast<float>(x.at[j]) - mean) * rstd;
    turned.x += inner[j], turned.y += inner[j] * hat[j];
  }
  turned.x = warp_sum(turned.x), turned.y = warp_sum(turned.y);
  if (lane == 0) partial[warp] = turned;
  __syncthreads();
  if (lane < warps) turned = partial[lane];
  else turned = make_float2(0.0f, 0.0f);
  turned.x = warp_sum(turned.x) * share, turned.y = warp_sum(turned.y) * share;
  if (!present) return;
  Some result;
#pragma unroll
  for (int j = 0; j < vec; ++j)
    result.at[j] = static_cast<scalar_t>((inner[j] - turned.x - hat[j] * turned.y) * rstd);
  if constexpr (Aligned) {
    *reinterpret_cast<Some*>(r.grad_x + start + column) = result;
  } else {
#pragma unroll
    for (int j = 0; j < vec; ++j)
      if (column + j < r.cols) r.grad_x[start + column + j] = result.at[j];
  }
}

template <bool Aligned, typename scalar_t>
void run_small(const Rows<scalar_t>& r, int packs, cudaStream_t stream) {
  const int strips = (packs + 3) / 4, threads = packs <= 128 ? 128 : packs <= 256 ? 256 : packs <= 512 ? 512 : 1024;
  const auto kernel = packs <= 128   ? small<scalar_t, 128, Aligned>
                      : packs <= 256 ? small<scalar_t, 256, Aligned>
                      : packs <= 512 ? small<scalar_t, 512, Aligned>
                                     : small<scalar_t, 1024, Aligned>;
  kernel<<<static_cast<unsigned>(strips + r.rows), threads, 0, stream>>>(r, strips, 1.0f / static_cast<float>(r.cols));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Rows of any length, a block each.
template <typename scalar_t>
__global__ void __launch_bounds__(1024) long_rows(Rows<scalar_t> r) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * r.cols;
  const float mean = r.mean[blockIdx.x], rstd = r.rstd[blockIdx.x];
  float2 turned = {0.0f, 0.0f};
  for (int i = threadIdx.x; i < r.cols; i += 1024) {
    const float inner = static_cast<float>(r.grad_out[start + i]) * static_cast<float>(r.weight[i]);
    turned.x += inner;
    turned.y += inner * (static_cast<float>(r.x[start + i]) - mean) * rstd;
  }
  turned = team_sum(turned, 0, 1024, 0);
  turned.x /= static_cast<float>(r.cols), turned.y /= static_cast<float>(r.cols);
  for (int i = threadIdx.x; i < r.cols; i += 1024) {
    const float inner = static_cast<float>(r.grad_out[start + i]) * static_cast<float>(r.weight[i]);
    const float hat = (static_cast<float>(r.x[start + i]) - mean) * rstd;
    r.grad_x[start + i] = static_cast<scalar_t>((inner - turned.x - hat * turned.y) * rstd);
  }
}

// Column sums beside it: 32 columns a block, its warps share the rows.
template <typename scalar_t>
__global__ void __launch_bounds__(1024) long_columns(Rows<scalar_t> r) {
  __shared__ float2 shared[1024];
  const int col = blockIdx.x * 32 + threadIdx.x % 32;
  float2 sum = {0.0f, 0.0f};
  if (col < r.cols)
    for (int row = threadIdx.x / 32; row < r.rows; row += 32) {
      const int64_t at = static_cast<int64_t>(row) * r.cols + col;
      const float grad = static_cast<float>(r.grad_out[at]);
      sum.x += grad * ((static_cast<float>(r.x[at]) - r.mean[row]) * r.rstd[row]);
      sum.y += grad;
    }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || col >= r.cols) return;
  for (int i = 1; i < 32; ++i) sum.x += shared[i * 32 + threadIdx.x].x, sum.y += shared[i * 32 + threadIdx.x].y;
  r.grad_weight[col] = static_cast<scalar_t>(sum.x);
  r.grad_bias[col] = static_cast<scalar_t>(sum.y);
}

template <int Vec, int Packs, bool Prefetched, typename scalar_t>
void run_fused(Rows<scalar_t> r, torch::Tensor grad_weight, cudaStream_t stream) {
  constexpr int most = std::min(THREADS, most_threads(Vec, Packs));
  r.team = (r.cols + Vec * Packs * 32 - 1) / (Vec * Packs * 32) * 32;
  const int room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount *
                                (r.team <= THREADS && !alone(Vec, Packs) ? 1024 / THREADS : 1), MOST_BLOCKS);
  // As many teams as fit, but rather a block on every SM than all rows in few blocks.
  r.teams = std::max(1, std::min({most / r.team, r.team > 32 ? kMostTeams : 32, r.rows / room}));
  const int blocks = std::min(room, (r.rows + r.teams - 1) / r.teams), threads = r.team * r.teams;
  const int slots = Prefetched ? stages_of(Vec, Packs) * 2 * Packs : 0;
  const int bytes = std::max({slots * threads * 16, r.teams * r.cols * 8, threads * 8});
  auto parts = torch::empty({blocks, r.cols, 2}, grad_weight.options().dtype(torch::kFloat32));
  r.parts = reinterpret_cast<float2*>(parts.template data_ptr<float>());
  void* arguments[] = {&r};
  const auto kernel = reinterpret_cast<const void*>(&fused<scalar_t, Vec, Packs, Prefetched>);
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, bytes, stream));
}

void run_strips(Rows<float> r, torch::Tensor grad_weight, cudaStream_t stream) {
  const int room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount * kStripBlocks, MOST_BLOCKS);
  auto sums = torch::empty({room, kStripRows, 2}, grad_weight.options());
  auto* pairs = reinterpret_cast<float2*>(sums.data_ptr<float>());
  void* arguments[] = {&r, &pairs};
  constexpr int bytes = 2 * kBatch * kAhead * kStripThreads * 16;
  const auto kernel = reinterpret_cast<const void*>(&strips);
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(room), dim3(kStripThreads), arguments, bytes, stream));
}

template <typename scalar_t>
void run(Rows<scalar_t> r, torch::Tensor grad_weight, cudaStream_t stream) {
  constexpr int vec = 16 / sizeof(scalar_t);
  const auto places = reinterpret_cast<uintptr_t>(r.grad_out) | reinterpret_cast<uintptr_t>(r.x) |
                      reinterpret_cast<uintptr_t>(r.weight) | reinterpret_cast<uintptr_t>(r.grad_x) |
                      reinterpret_cast<uintptr_t>(r.grad_weight) | reinterpret_cast<uintptr_t>(r.grad_bias);
  const bool aligned = r.cols % vec == 0 && places % 16 == 0;
  if constexpr (vec == 4)
    if (aligned && r.rows <= kStripRows && r.cols / vec >= STRIP_PACKS) return run_strips(r, grad_weight, stream);
  const int packs = (r.cols + vec - 1) / vec;
  const bool few = r.rows <= 8 * std::max(128, std::min(packs, 1024));  // else a strip would be too long for its block
  const bool little = few && static_cast<int64_t>(r.rows) * r.cols <= SMALL;
  if (little && packs <= 1024)
    return aligned ? run_small<true>(r, packs, stream) : run_small<false>(r, packs, stream);
  if constexpr (vec == 8) {
    const bool warps = ALONE && aligned && r.cols < LONG_COLS;
    if (warps && packs > 64 && packs <= 96) return run_fused<8, 3, true>(r, grad_weight, stream);
    if (warps && packs > 96 && packs <= 128) return run_fused<8, 4, true>(r, grad_weight, stream);
  }
  if (aligned && r.cols <= vec * 1024 && r.cols < LONG_COLS)
    return run_fused<vec, 1, true>(r, grad_weight, stream);
  if (aligned && vec == 4 && r.cols <= vec * 2048 && r.cols < LONG_COLS)
    return run_fused<vec, vec == 4 ? 2 : 1, true>(r, grad_weight, stream);
  if (r.cols < LONG_COLS && !little) {
    if (r.cols <= 512) return run_fused<1, 2, false>(r, grad_weight, stream);
    if (r.cols <= 2048) return run_fused<1, 4, false>(r, grad_weight, stream);
    return run_fused<1, 9, false>(r, grad_weight, stream);
  }
  long_rows<<<static_cast<unsigned>(r.rows), 1024, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  long_columns<<<static_cast<unsigned>((r.cols + 31) / 32), 1024, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    double eps, torch::Tensor mean, torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous() && mean.is_contiguous() &&
                  rstd.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  TORCH_CHECK(cols < (1 << 30) && rows < (1 << 30), "too large");
  DISPATCH(x, "layernorm_backward", [&] {
    run<scalar_t>({grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
                   mean.data_ptr<float>(), rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(),
                   grad_weight.data_ptr<scalar_t>(), grad_bias.data_ptr<scalar_t>(), nullptr, static_cast<int>(rows),
                   static_cast<int>(cols), 0, 0},
                  grad_weight, at::cuda::getCurrentCUDAStream());
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
