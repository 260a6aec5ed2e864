// LayerNorm over the last axis; every element of x is read once (but for swept rows) and written once.
//  - held:   a team (warp or block) holds a row in registers.
//  - marched: the same by warps that stay and take row after row of a few KB, whose next rows shared memory already fetches.
//  - swept:  a few rows of megabytes. Every block has a strip of columns of all rows and goes over it twice: once for mean
//            and variance, which the grid then agrees on, once to write. Gain and bias are read once. The second sweep goes
//            backwards: it begins with what shared memory and the L2 still have of the first.
//  - spread: the same read only once, two rows at a time over the whole GPU: one lies in registers, one in shared memory, and
//            the rest of the shared memory already fetches the next rows while the grid agrees on mean and variance. But
//            every two rows read gain and bias anew, from the L2 at best.
//  - looped: anything else.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>

// Threads of a block whose warps have a row each.
#ifndef WARP_BLOCK
#define WARP_BLOCK 128
#endif
// Elements that a thread of a block holds of a row (many rows).
// tune: HELD = 32 [16, 32]
#ifndef HELD
#define HELD 32
#endif
// Up to this many rows a row is spread over as many threads as possible: there is no other row to hide behind.
#ifndef FEW_ROWS
#define FEW_ROWS 1024
#endif
// Whether warps stay where 16-bit rows are short and many, and how many rows ahead they fetch.
// tune: MARCH = 1 [0, 1]
#ifndef MARCH
#define MARCH 1
#endif
#ifndef MARCH_ROWS
#define MARCH_ROWS 3
#endif
// Rows of megabytes: 1 sweeps over them twice, 0 spreads two at a time.
// tune: STRATEGY = 1 [0, 1]
#ifndef STRATEGY
#define STRATEGY 1
#endif
// Whether the L2 is told what will be read again (gain and bias, the end of the first sweep) and what will not.
// tune: HINTS = 1 [0, 1]
#ifndef HINTS
#define HINTS 1
#endif

// Rows of at least this many packs are swept or spread over the whole GPU.
#ifndef SPREAD_PACKS
#define SPREAD_PACKS 65536
#endif
// Threads of a block of such a grid, and how many blocks there are at most.
#ifndef SPREAD_THREADS
#define SPREAD_THREADS 1024
#endif
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 65536
#endif
#ifndef SWEEP_THREADS
#define SWEEP_THREADS 512
#endif
// Packs that a thread of a sweep keeps in shared memory from the first sweep to the second: 224 KB in all.
#ifndef SWEEP_SLOTS
#define SWEEP_SLOTS 28
#endif
// Rows that it asks for at once, and the steps that are left to the L2: 17 MB each of 16 rows.
#ifndef SWEEP_BATCH
#define SWEEP_BATCH 8
#endif
#ifndef WARM_STEPS
#define WARM_STEPS 2
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kPacks = 8;   // that a thread has of a spread row
constexpr int kSlots = 14;  // of 16 bytes a thread: 224 KB
constexpr int kSweepRows = 16;

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

template <typename scalar_t>
union Pack {
  uint4 bits;
  scalar_t at[kVec<scalar_t>];
  __device__ Pack() : bits(make_uint4(0, 0, 0, 0)) {}
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

// A row within its window: elements [head, end) after `base`, which lies on 16 bytes.
struct Window {
  int64_t base;
  int head, end;
};

template <typename scalar_t, bool Aligned>
__device__ Window window(int64_t row, int cols) {
  const int64_t start = row * cols;
  const int head = Aligned ? 0 : static_cast<int>(start % kVec<scalar_t>);
  return {start - head, head, head + cols};
}

template <bool Aligned, typename scalar_t>
__device__ Pack<scalar_t> fetch(const scalar_t* base, int at, int head, int end) {
  Pack<scalar_t> pack;
  if (Aligned ? at < end : at >= head && at + kVec<scalar_t> <= end) {
    pack.bits = *reinterpret_cast<const uint4*>(base + at);
  } else if (!Aligned) {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j)
      if (at + j >= head && at + j < end) pack.at[j] = base[at + j];
  }
  return pack;
}

template <bool Aligned, typename scalar_t>
__device__ void store(scalar_t* base, int at, int head, int end, const Pack<scalar_t>& pack) {
  if (Aligned ? at < end : at >= head && at + kVec<scalar_t> <= end) {
    __stcs(reinterpret_cast<uint4*>(base + at), pack.bits);
  } else if (!Aligned) {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j)
      if (at + j >= head && at + j < end) base[at + j] = pack.at[j];
  }
}

// The sum over a team, the same in every thread. A barrier must lie between two calls with the same Place.
template <int Team, int Place = 0>
__device__ float team_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if constexpr (Team > 32) {
    constexpr int warps = Team / 32;
    __shared__ float partial[warps];
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = lane < warps ? partial[lane] : 0.0f;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  return sum;
}

// Mean and sum of squares about it of equally many numbers each, by Chan's formula: of a thread's packs, of a warp's lanes
// and of a team's warps. It loses no digits, equal numbers have their own value as mean, and there is one barrier.
template <int Team, typename scalar_t, int Packs>
__device__ float2 team_moments(const Pack<scalar_t> (&packs)[Packs]) {
  constexpr int vec = kVec<scalar_t>;
  float mean = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    float v[vec], sums[vec], own = 0.0f;
    widen<scalar_t>(packs[k].bits, v);
#pragma unroll
    for (int j = 0; j < vec; ++j) sums[j] = v[j];
#pragma unroll
    for (int step = vec / 2; step > 0; step /= 2)
#pragma unroll
      for (int j = 0; j < step; ++j) sums[j] += sums[j + step];
    const float middle = sums[0] * (1.0f / vec), apart = middle - mean;
#pragma unroll
    for (int j = 0; j < vec; ++j) own += (v[j] - middle) * (v[j] - middle);
    mean += apart * (1.0f / (k + 1));
    square += own + apart * apart * (vec * static_cast<float>(k) / (k + 1));
  }
  const auto join = [&](int step, float each) {  // with the lane that far away; both have so many numbers
    const float other = __shfl_xor_sync(0xffffffffu, mean, step), apart = other - mean;
    square += __shfl_xor_sync(0xffffffffu, square, step) + apart * apart * (0.5f * each);
    mean = 0.5f * (mean + other);
  };
#pragma unroll
  for (int step = 1; step < 32; step *= 2) join(step, static_cast<float>(Packs * vec * step));
  if constexpr (Team > 32) {
    constexpr int warps = Team / 32;
    static_assert((warps & (warps - 1)) == 0, "halves of halves");
    __shared__ float2 partial[warps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = make_float2(mean, square);
    __syncthreads();
    const float2 part = partial[threadIdx.x % warps];
    mean = part.x, square = part.y;
#pragma unroll
    for (int step = 1; step < warps; step *= 2) join(step, static_cast<float>(Packs * vec * 32 * step));
  }
  return make_float2(mean, square);
}

// Gains or biases of the columns from `at` on, or zeros where there are none. They are read again by every row: no streaming.
template <bool Aligned, typename scalar_t>
__device__ Pack<scalar_t> parameters(const scalar_t* from, int at, int head, int end) {
  Pack<scalar_t> pack;
  if (Aligned) {
    if (at < end)  // not .nc, so that it stays where it is: moved up in one heap, these loads cost too many registers
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(pack.bits.x), "=r"(pack.bits.y), "=r"(pack.bits.z), "=r"(pack.bits.w)
                   : "l"(__cvta_generic_to_global(from + at)));
  } else {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j)
      if (at + j >= head && at + j < end) pack.at[j] = from[at + j - head];
  }
  return pack;
}

constexpr int block_of(int team) { return team == 32 ? WARP_BLOCK : team; }

// Blocks that shall fit on an SM: the fewer elements a thread holds, the more threads it takes to keep memory busy.
constexpr int resident(int team, int elements, bool aligned, bool packed) {
  const int threads = !aligned ? 0 : elements <= 16 ? 1280 : elements <= 32 ? packed ? 1024 : 768 : 512;
  return threads < block_of(team) ? 1 : threads / block_of(team);
}

template <typename scalar_t>
__device__ Pack<scalar_t> normalized(const Pack<scalar_t>& x, const Pack<scalar_t>& gain, const Pack<scalar_t>& bias,
                                     float mean, float rstd) {
  float v[kVec<scalar_t>], gains[kVec<scalar_t>], biases[kVec<scalar_t>];
  widen<scalar_t>(x.bits, v), widen<scalar_t>(gain.bits, gains), widen<scalar_t>(bias.bits, biases);
#pragma unroll
  for (int j = 0; j < kVec<scalar_t>; ++j) v[j] = (v[j] - mean) * rstd * gains[j] + biases[j];
  Pack<scalar_t> result;
  result.bits = narrow<scalar_t>(v);
  return result;
}

// Full: the team's packs are exactly the row.
template <typename scalar_t, int Team, int Packs, bool Aligned, bool Full>
__global__ void __launch_bounds__(block_of(Team), resident(Team, Packs * kVec<scalar_t>, Aligned, Full && kVec<scalar_t> == 8))
    held(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, int64_t rows, int cols, float eps) {
  constexpr int vec = kVec<scalar_t>;
  constexpr bool early = Packs <= 2;  // else they would cost blocks on the SM
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (block_of(Team) / Team) + threadIdx.x / Team;
  if (Team == 32 && row >= rows) return;  // whole warps only
  const Window w = window<scalar_t, Aligned>(row, cols);
  const int first = threadIdx.x % Team * vec;
  Pack<scalar_t> packs[Packs], gains[early ? Packs : 1], biases[early ? Packs : 1];
#pragma unroll
  for (int k = 0; k < Packs; ++k) packs[k] = fetch<Aligned>(x + w.base, first + k * Team * vec, w.head, w.end);
  if constexpr (early) {
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      gains[k] = parameters<Aligned>(weight, first + k * Team * vec, w.head, w.end);
      biases[k] = parameters<Aligned>(bias, first + k * Team * vec, w.head, w.end);
    }
  }
  float mean, square = 0.0f;
  if constexpr (Full) {
    const float2 moments = team_moments<Team>(packs);
    mean = moments.x, square = moments.y;
  } else {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Packs; ++k)
#pragma unroll
      for (int j = 0; j < vec; ++j) sum += static_cast<float>(packs[k].at[j]);  // zero where there is no element
    mean = team_sum<Team, 0>(sum) / static_cast<float>(cols);
#pragma unroll
    for (int k = 0; k < Packs; ++k)
#pragma unroll
      for (int j = 0; j < vec; ++j) {
        const int at = first + k * Team * vec + (Aligned ? 0 : j);
        const float apart = static_cast<float>(packs[k].at[j]) - mean;
        if (at < w.end && (Aligned || at >= w.head)) square += apart * apart;
      }
    square = team_sum<Team, 1>(square);
  }
  const float rstd = rsqrtf(square / static_cast<float>(cols) + eps);
  Pack<scalar_t> gain = gains[0], shift = biases[0];
  if constexpr (!early) {
    gain = parameters<Aligned>(weight, first, w.head, w.end);
    shift = parameters<Aligned>(bias, first, w.head, w.end);
  }
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    const int at = first + k * Team * vec;
    const auto result = normalized(packs[k], gain, shift, mean, rstd);
    if (k + 1 < Packs) {  // one step ahead of their use
      if constexpr (early) {
        gain = gains[k + 1], shift = biases[k + 1];
      } else {
        gain = parameters<Aligned>(weight, at + Team * vec, w.head, w.end);
        shift = parameters<Aligned>(bias, at + Team * vec, w.head, w.end);
      }
    }
    store<Aligned>(out + w.base, at, w.head, w.end, result);
  }
}

// Warps that stay, with a row each; a row is exactly its packs. A thread reads only rows that it copied itself, so no
// barrier guards them. Gain and bias lie in shared memory, too: they would cost too many registers.
constexpr int kMarchThreads = 256, kMarchBlocks = 4;  // blocks on an SM

template <int Packs>
constexpr int kMarchBytes = (MARCH_ROWS * kMarchThreads + 2 * 32) * Packs * 16;

template <typename scalar_t, int Packs>
__global__ void __launch_bounds__(kMarchThreads, kMarchBlocks)
    marched(const uint4* x, const uint4* weight, const uint4* bias, uint4* out, int rows, float eps) {
  constexpr int length = Packs * 32;  // packs of a row
  extern __shared__ uint4 ahead[];
  uint4 *gains = ahead + MARCH_ROWS * kMarchThreads * Packs, *biases = gains + length;
  const int lane = threadIdx.x % 32, stride = gridDim.x * (kMarchThreads / 32);
  const auto slot = [&](int stage, int k) { return ahead + (stage * Packs + k) * kMarchThreads + threadIdx.x; };
  const auto prefetch = [&](int row, int stage) {  // every call makes one group of copies
    if (row < rows) {
      const uint4* from = x + static_cast<int64_t>(row) * length + lane;
#pragma unroll
      for (int k = 0; k < Packs; ++k)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         static_cast<uint32_t>(__cvta_generic_to_shared(slot(stage, k)))),
                     "l"(__cvta_generic_to_global(from + k * 32))
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  int row = blockIdx.x * (kMarchThreads / 32) + threadIdx.x / 32, stage = 0;
#pragma unroll
  for (int i = 0; i < MARCH_ROWS; ++i) prefetch(row + i * stride, i);
  for (int i = threadIdx.x; i < length; i += kMarchThreads) gains[i] = weight[i], biases[i] = bias[i];
  __syncthreads();
  for (; row < rows; row += stride) {
    asm volatile("cp.async.wait_group %0;" ::"n"(MARCH_ROWS - 1) : "memory");
    Pack<scalar_t> packs[Packs];
#pragma unroll
    for (int k = 0; k < Packs; ++k) packs[k].bits = *slot(stage, k);
    prefetch(row + MARCH_ROWS * stride, stage);  // into the slots just read
    stage = stage + 1 == MARCH_ROWS ? 0 : stage + 1;
    const float2 moments = team_moments<32>(packs);
    const float rstd = rsqrtf(moments.y / (length * kVec<scalar_t>) + eps);
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      Pack<scalar_t> gain, shift;
      gain.bits = gains[k * 32 + lane], shift.bits = biases[k * 32 + lane];
      __stcs(out + static_cast<int64_t>(row) * length + k * 32 + lane,
             normalized(packs[k], gain, shift, moments.x, rstd).bits);
    }
  }
}

template <typename scalar_t>
struct Spread {
  const scalar_t *x, *weight, *bias;
  scalar_t* out;
  float2* parts;  // mean and sum of squares about it, of every block's slice of every row
  int rows, packs, slice;  // packs of a row, and of a block's slice of it
  int64_t cols;
  float eps;
};

// The L2 shall give up these lines first. Gain and bias have the ordinary rank, so they outlast the rows that stream by and
// are no more than any other line to the next kernel.
__device__ uint64_t policy_drop() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ uint64_t policy_normal() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// A policy, not a branch between two loads, so that a batch of them stays one.
__device__ uint4 load_hinted(const uint4* from, uint64_t policy) {
#if HINTS
  uint4 pack;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
               : "l"(__cvta_generic_to_global(from)), "l"(policy));
  return pack;
#else
  return *from;
#endif
}

template <typename scalar_t>
__device__ void store_hinted(scalar_t* to, const Pack<scalar_t>& pack, uint64_t policy) {
#if HINTS
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(__cvta_generic_to_global(to)),
               "r"(pack.bits.x), "r"(pack.bits.y), "r"(pack.bits.z), "r"(pack.bits.w), "l"(policy)
               : "memory");
#else
  __stcs(reinterpret_cast<uint4*>(to), pack.bits);
#endif
}

// Pack i of those that a thread reads: of each pair of rows, those of the first row, then those of the second. A thread
// reads only what it copied itself, so no barrier guards the slots. Every call makes one group, also an empty one.
template <typename scalar_t>
__device__ __forceinline__ void copy(const Spread<scalar_t>& s, uint32_t slot, const scalar_t* from, int row, int mine,
                                     int i, uint64_t policy) {
  const int k = i % kPacks;
  row += i / kPacks;
  if (row < s.rows && k * SPREAD_THREADS < mine)
#if HINTS
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(slot),
                 "l"(__cvta_generic_to_global(from + row * s.cols + k * (SPREAD_THREADS * kVec<scalar_t>))), "l"(policy)
                 : "memory");
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot),
                 "l"(__cvta_generic_to_global(from + row * s.cols + k * (SPREAD_THREADS * kVec<scalar_t>)))
                 : "memory");
#endif
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <typename scalar_t>
__device__ __forceinline__ Pack<scalar_t> read(uint32_t slot, bool present) {
  Pack<scalar_t> pack;
  if (present)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.bits.x), "=r"(pack.bits.y), "=r"(pack.bits.z), "=r"(pack.bits.w)
                 : "r"(slot)
                 : "memory");
  return pack;
}

template <typename scalar_t>
__device__ float sum_of(const Pack<scalar_t>& pack) {
  float v[kVec<scalar_t>], sum = 0.0f;
  widen<scalar_t>(pack.bits, v);
#pragma unroll
  for (int j = 0; j < kVec<scalar_t>; ++j) sum += v[j];
  return sum;
}

template <typename scalar_t>
__device__ float squares_about(const Pack<scalar_t>& pack, float mean) {
  float v[kVec<scalar_t>], sum = 0.0f;
  widen<scalar_t>(pack.bits, v);
#pragma unroll
  for (int j = 0; j < kVec<scalar_t>; ++j) sum += (v[j] - mean) * (v[j] - mean);
  return sum;
}

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

// Mean and sum of squares about it of several sets of numbers, as one set (Chan's formula).
struct Moments {
  float count, mean, square;
};

__device__ Moments warp_join(const Moments& own) {
  const float count = warp_sum(own.count);
  if (count == 0.0f) return {0.0f, 0.0f, 0.0f};
  const float mean = warp_sum(own.mean * own.count) / count, apart = own.mean - mean;
  return {count, mean, warp_sum(own.square + apart * apart * own.count)};
}

// A row's mean and sum of squares about it, by one warp, from those of the blocks' slices of it.
__device__ float2 join(const float2* parts, int slice, int packs, int vec) {
  Moments own = {0.0f, 0.0f, 0.0f};
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < gridDim.x; i += 32) {
    const float2 part = __ldcg(parts + i);
    const float more = static_cast<float>(max(0, min(slice, packs - i * slice))) * static_cast<float>(vec);
    if (more > 0.0f) {
      const float share = more / (own.count + more), apart = part.x - own.mean;
      own.mean += apart * share;
      own.square += part.y + apart * apart * own.count * share;
      own.count += more;
    }
  }
  own = warp_join(own);
  return make_float2(own.mean, own.square);
}

template <typename scalar_t>
__global__ void __launch_bounds__(SWEEP_THREADS, 1) swept(Spread<scalar_t> s) {
  constexpr int vec = kVec<scalar_t>, warps = SWEEP_THREADS / 32;
  extern __shared__ uint4 slots[];  // what the first sweep reads last
  __shared__ float2 partial[warps][kSweepRows], agreed[kSweepRows];
  __shared__ float counts[warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int begin = blockIdx.x * s.slice, end = min(begin + s.slice, s.packs);
  const auto* x = reinterpret_cast<const uint4*>(s.x);
  // Whether a row is kept in shared memory where that many steps are left, and where.
  const auto kept = [](int left, int row) { return left * kSweepRows + row < SWEEP_SLOTS; };
  const auto slot = [&](int left, int row) -> uint4& {
    return slots[(left * kSweepRows + row) * SWEEP_THREADS + threadIdx.x];
  };

  const uint64_t drop = policy_drop(), normal = policy_normal();
  float mean[kSweepRows] = {}, square[kSweepRows] = {}, steps = 0.0f;
  int last = begin + static_cast<int>(threadIdx.x);
  for (int pack = last; pack < end; pack += SWEEP_THREADS) {
    last = pack;
    const int left = (end - 1 - pack) / SWEEP_THREADS;
    const uint64_t policy = left > WARM_STEPS + SWEEP_SLOTS / kSweepRows ? drop : normal;
    steps += 1.0f;
    const float share = 1.0f / steps, between = (steps - 1.0f) * share * vec;
#pragma unroll
    for (int first = 0; first < kSweepRows; first += SWEEP_BATCH) {
      Pack<scalar_t> some[SWEEP_BATCH];
#pragma unroll
      for (int i = 0; i < SWEEP_BATCH; ++i)
        if (first + i < s.rows) {
          const auto* from = x + static_cast<int64_t>(first + i) * s.packs + pack;
          some[i].bits = load_hinted(from, policy);
        }
#pragma unroll
      for (int i = 0; i < SWEEP_BATCH; ++i) {
        if (kept(left, first + i)) slot(left, first + i) = some[i].bits;
        const float middle = sum_of(some[i]) / vec, apart = middle - mean[first + i];
        mean[first + i] += apart * share;
        square[first + i] += squares_about(some[i], middle) + apart * apart * between;
      }
    }
  }
  // Memory shall not idle while the grid meets: the gains and biases that come first, a line of 128 bytes a call.
  if (threadIdx.x % 8 == 0)
    for (int left = 0; left < 4; ++left) {
      const int pack = last - left * SWEEP_THREADS;
      if (pack < begin || pack >= end) break;
      asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(s.weight + static_cast<int64_t>(pack) * vec)));
      asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(s.bias + static_cast<int64_t>(pack) * vec)));
    }
#pragma unroll
  for (int row = 0; row < kSweepRows; ++row) {
    const auto joined = warp_join({steps * vec, mean[row], square[row]});
    if (lane == 0) partial[warp][row] = make_float2(joined.mean, joined.square), counts[warp] = joined.count;
  }
  __syncthreads();
  for (int row = warp; row < s.rows; row += warps) {
    const float2 part = lane < warps ? partial[lane][row] : make_float2(0.0f, 0.0f);
    const auto joined = warp_join({lane < warps ? counts[lane] : 0.0f, part.x, part.y});
    if (lane == 0) s.parts[static_cast<int64_t>(row) * gridDim.x + blockIdx.x] = make_float2(joined.mean, joined.square);
  }
  cooperative_groups::this_grid().sync();
  for (int row = warp; row < s.rows; row += warps) {
    const auto joined = join(s.parts + static_cast<int64_t>(row) * gridDim.x, s.slice, s.packs, vec);
    if (lane == 0) agreed[row] = make_float2(joined.x, rsqrtf(joined.y / static_cast<float>(s.cols) + s.eps));
  }
  __syncthreads();
  for (int pack = last, left = 0; pack >= begin && pack < end; pack -= SWEEP_THREADS, ++left) {
    Pack<scalar_t> gain, shift;
    gain.bits = reinterpret_cast<const uint4*>(s.weight)[pack];
    shift.bits = reinterpret_cast<const uint4*>(s.bias)[pack];
#pragma unroll
    for (int first = 0; first < kSweepRows; first += SWEEP_BATCH) {
      Pack<scalar_t> some[SWEEP_BATCH];
#pragma unroll
      for (int i = 0; i < SWEEP_BATCH; ++i)
        if (first + i < s.rows)
          some[i].bits = kept(left, first + i) ? slot(left, first + i)
                                               : x[static_cast<int64_t>(first + i) * s.packs + pack];
#pragma unroll
      for (int i = 0; i < SWEEP_BATCH; ++i)
        if (first + i < s.rows) {
          const float2 row = agreed[first + i];
          __stcs(reinterpret_cast<uint4*>(s.out) + static_cast<int64_t>(first + i) * s.packs + pack,
                 normalized(some[i], gain, shift, row.x, row.y).bits);
        }
    }
  }
}

template <typename scalar_t>
__global__ void __launch_bounds__(SPREAD_THREADS, 1) spread(Spread<scalar_t> s) {
  constexpr int vec = kVec<scalar_t>, stride = SPREAD_THREADS * 16;
  extern __shared__ uint4 slots[];
  __shared__ float2 agreed[2];  // mean and reciprocal deviation of both rows
  const auto grid = cooperative_groups::this_grid();
  const uint32_t begin = static_cast<uint32_t>(__cvta_generic_to_shared(slots + threadIdx.x));
  const uint32_t end = begin + kSlots * stride;
  const auto after = [&](uint32_t slot) { return slot + stride == end ? begin : slot + stride; };
  const auto length = [&](int block) { return max(0, min(s.slice, s.packs - block * s.slice)); };
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * s.slice + threadIdx.x) * vec;
  const int mine = length(blockIdx.x) - static_cast<int>(threadIdx.x);  // pack k is there if k threads' strides fit in it
  const auto present = [&](int k) { return k * SPREAD_THREADS < mine; };
  const float count = static_cast<float>(length(blockIdx.x)) * vec, whole = static_cast<float>(s.cols);
  const uint64_t drop = policy_drop();
  uint32_t slot = begin;
#pragma unroll
  for (int i = 0; i < kSlots; ++i) copy(s, begin + i * stride, s.x + first, 0, mine, i, drop);
  for (int row = 0; row < s.rows; row += 2) {
    const bool paired = row + 1 < s.rows;
    Pack<scalar_t> one[kPacks];
    float2 sum = {0.0f, 0.0f}, square = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
      one[k] = read<scalar_t>(slot, present(k));
      copy(s, slot, s.x + first, row, mine, k + kSlots, drop);  // into the slot just read
      slot = after(slot);
      sum.x += sum_of(one[k]);
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - kPacks) : "memory");  // all of the second row
    uint32_t ahead = slot;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      sum.y += sum_of(read<scalar_t>(ahead, paired && present(k)));
      ahead = after(ahead);
    }
    sum.x = team_sum<SPREAD_THREADS, 0>(sum.x), sum.y = team_sum<SPREAD_THREADS, 1>(sum.y);
    if (count > 0.0f) sum.x /= count, sum.y /= count;
    ahead = slot;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (present(k)) {
        square.x += squares_about(one[k], sum.x);
        if (paired) square.y += squares_about(read<scalar_t>(ahead, true), sum.y);
      }
      ahead = after(ahead);
    }
    square.x = team_sum<SPREAD_THREADS, 2>(square.x), square.y = team_sum<SPREAD_THREADS, 3>(square.y);
    if (threadIdx.x == 0) {
      s.parts[static_cast<int64_t>(row) * gridDim.x + blockIdx.x] = make_float2(sum.x, square.x);
      if (paired) s.parts[static_cast<int64_t>(row + 1) * gridDim.x + blockIdx.x] = make_float2(sum.y, square.y);
    }
    // Memory shall not idle while the grid meets: gain and bias come to the L2, a line of 128 bytes a call.
    if (threadIdx.x % 8 == 0) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (present(k)) {
          const int64_t at = first + k * (SPREAD_THREADS * vec);
          asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(s.weight + at)));
          asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(s.bias + at)));
        }
    }
    grid.sync();
    // One warp a row joins its slices.
    for (int other = threadIdx.x / 32; other <= (paired ? 1 : 0); other += SPREAD_THREADS / 32) {
      const auto joined = join(s.parts + static_cast<int64_t>(row + other) * gridDim.x, s.slice, s.packs, vec);
      if (threadIdx.x % 32 == 0) agreed[other] = make_float2(joined.x, rsqrtf(joined.y / whole + s.eps));
    }
    __syncthreads();
    const float2 a = agreed[0], b = agreed[paired ? 1 : 0];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const auto two = read<scalar_t>(slot, paired && present(k));
      copy(s, slot, s.x + first, row, mine, kPacks + k + kSlots, drop);
      slot = after(slot);
      if (!present(k)) continue;
      const int64_t at = first + k * (SPREAD_THREADS * vec);
      Pack<scalar_t> gain, shift;
      gain.bits = __ldg(reinterpret_cast<const uint4*>(s.weight + at));
      shift.bits = __ldg(reinterpret_cast<const uint4*>(s.bias + at));
      scalar_t* to = s.out + row * s.cols + at;
      store_hinted(to, normalized(one[k], gain, shift, a.x, a.y), drop);
      if (paired) store_hinted(to + s.cols, normalized(two, gain, shift, b.x, b.y), drop);
    }
  }
}

// Any row, by one block.
template <typename scalar_t>
__global__ void __launch_bounds__(1024)
    looped(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, int64_t cols, float eps) {
  const int64_t start = blockIdx.x * cols;
  float sum = 0.0f, square = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += 1024) sum += static_cast<float>(x[start + i]);
  const float mean = team_sum<1024, 0>(sum) / static_cast<float>(cols);
  for (int64_t i = threadIdx.x; i < cols; i += 1024) {
    const float apart = static_cast<float>(x[start + i]) - mean;
    square += apart * apart;
  }
  const float rstd = rsqrtf(team_sum<1024, 1>(square) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x; i < cols; i += 1024)
    out[start + i] = static_cast<scalar_t>((static_cast<float>(x[start + i]) - mean) * rstd *
                                               static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
}

template <typename scalar_t>
struct Launch {
  const scalar_t *x, *weight, *bias;
  scalar_t* out;
  int64_t rows, cols;
  float eps;
  cudaStream_t stream;
  torch::TensorOptions options;

  template <int Team, int Packs, bool Aligned>
  void run_held() const {
    constexpr int together = block_of(Team) / Team;
    const auto kernel = Aligned && cols == Team * Packs * kVec<scalar_t> ? held<scalar_t, Team, Packs, Aligned, Aligned>
                                                                         : held<scalar_t, Team, Packs, Aligned, false>;
    kernel<<<static_cast<unsigned>((rows + together - 1) / together), block_of(Team), 0, stream>>>(
        x, weight, bias, out, rows, static_cast<int>(cols), eps);
  }

  template <int Packs>
  void run_marched() const {
    if constexpr (kVec<scalar_t> == 8) {
      const int64_t room = kMarchBlocks * std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, MOST_BLOCKS);
      const auto blocks = static_cast<unsigned>(std::min<int64_t>(room, (rows + kMarchThreads / 32 - 1) / (kMarchThreads / 32)));
      const auto kernel = marched<scalar_t, Packs>;
      const auto packs = [](const scalar_t* at) { return reinterpret_cast<const uint4*>(at); };
      C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMarchBytes<Packs>));
      kernel<<<blocks, kMarchThreads, kMarchBytes<Packs>, stream>>>(packs(x), packs(weight), packs(bias),
                                                                    reinterpret_cast<uint4*>(out), static_cast<int>(rows), eps);
    }
  }

  // All blocks must be there at once, so the launch is a cooperative one.
  template <bool Swept>
  void run_spread(int blocks, int packs) const {
    constexpr int threads = Swept ? SWEEP_THREADS : SPREAD_THREADS, bytes = (Swept ? SWEEP_SLOTS : kSlots) * threads * 16;
    auto parts = torch::empty({rows, blocks, 2}, options.dtype(torch::kFloat32));
    Spread<scalar_t> s = {x, weight, bias, out, reinterpret_cast<float2*>(parts.template data_ptr<float>()),
                          static_cast<int>(rows), packs, (packs + blocks - 1) / blocks, cols, eps};
    void* arguments[] = {&s};
    const auto kernel = reinterpret_cast<const void*>(Swept ? &swept<scalar_t> : &spread<scalar_t>);
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, bytes, stream));
  }

  void run() const {
    constexpr int vec = kVec<scalar_t>, kept = HELD / vec;
    const auto places = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weight) |
                        reinterpret_cast<uintptr_t>(bias) | reinterpret_cast<uintptr_t>(out);
    const bool aligned = cols % vec == 0;
    const int64_t packs = aligned ? cols / vec : (cols + vec - 1) / vec + 1;  // one more where a row begins within one
    const int64_t room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, MOST_BLOCKS);
    if (places % 16 == 0 && aligned && packs >= SPREAD_PACKS && packs < (1 << 30)) {
      if (STRATEGY == 1 && rows <= kSweepRows) return run_spread<true>(static_cast<int>(room), static_cast<int>(packs));
      if (packs <= room * SPREAD_THREADS * kPacks)
        return run_spread<false>(static_cast<int>(room), static_cast<int>(packs));
    }
    const bool march = MARCH && vec == 8 && places % 16 == 0 && aligned && rows > FEW_ROWS && rows < (1 << 30) &&
                       packs % 32 == 0 && packs > 32 && packs <= 128;
    if (march)
      packs == 64 ? run_marched<2>() : packs == 96 ? run_marched<3>() : run_marched<4>();
    else if (places % 16 != 0 || packs > 4096)
      looped<<<static_cast<unsigned>(rows), 1024, 0, stream>>>(x, weight, bias, out, cols, eps);
    else if (!aligned)
      if (packs <= 32) run_held<32, 1, false>();
      else if (packs <= 256) run_held<64, 4, false>();
      else if (packs <= 512) run_held<128, 4, false>();
      else if (packs <= 1024) run_held<256, 4, false>();
      else if (packs <= 2048) run_held<512, 4, false>();
      else run_held<1024, 4, false>();
    else if (packs <= 32) run_held<32, 1, true>();
    else if (rows <= FEW_ROWS && packs <= 1024)
      if (packs <= 128) run_held<128, 1, true>();
      else if (packs <= 256) run_held<256, 1, true>();
      else if (packs <= 512) run_held<512, 1, true>();
      else run_held<512, 2, true>();
    else if (packs <= 128) run_held<32, 4, true>();
    else if (packs <= 256) run_held<32, 8, true>();
    else if (packs <= 512) run_held<512 / kept, kept, true>();
    else if (packs <= 1024) run_held<1024 / kept, kept, true>();
    else if (packs <= 2048) run_held<2048 / kept, kept, true>();
    else run_held<1024, 4, true>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  DISPATCH(x, "layernorm", [&] {
    Launch<scalar_t>{x.data_ptr<scalar_t>(),
                     weight.data_ptr<scalar_t>(),
                     bias.data_ptr<scalar_t>(),
                     out.data_ptr<scalar_t>(),
                     x.numel() / cols,
                     cols,
                     static_cast<float>(eps),
                     at::cuda::getCurrentCUDAStream(),
                     x.options()}
        .run();
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
