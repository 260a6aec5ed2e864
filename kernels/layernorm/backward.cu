// Gradients of LayerNorm in one launch (but for strips and long rows), a cooperative one where there is much to do; there
// every element is read once and written once. Resident blocks, made of teams of threads that have a row at a time. A
// thread always has the same columns, so it keeps their gains and sums their gradients in registers over all rows of its
// team. It prefetches its own packs of the rows to come with cp.async, so memory stays busy during a row's reduction. At the
// end the blocks leave their column sums in global memory, meet at a grid barrier and add them up, always in the same order.
// Where there is little to do, no block waits for another: some have a row each, others a strip of columns of all rows.
// Rows that do not begin on 16 bytes are read element by element; those too long for a team, or where there is little to
// do for a block, take two plain kernels.
// A few rows of megabytes are cut into strips of columns instead. A first launch reads everything for the sums of rows, a
// second one again to write: there a thread has all rows of its columns, so column sums need nobody else. The second
// reading goes backwards, so that it begins with what the L2 still has.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <type_traits>
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
// Whether teams of 16-bit rows finish a row only after the first half of the next, which hides how long they take to meet.
// tune: LAGGED = 1 [0, 1]
#ifndef LAGGED
#define LAGGED 1
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
// Strips, first reading: threads of a block, packs of a row that a strip has, rows that a block reads at once, blocks on
// an SM.
// tune: SUM_THREADS = 256 [128, 256, 512]
#ifndef SUM_THREADS
#define SUM_THREADS 256
#endif
// tune: SUM_PACKS = 256 [256, 512, 1024]
#ifndef SUM_PACKS
#define SUM_PACKS 256
#endif
// tune: SUM_ROWS = 4 [2, 4, 8]
#ifndef SUM_ROWS
#define SUM_ROWS 4
#endif
// tune: SUM_BLOCKS = 4 [2, 3, 4, 8]
#ifndef SUM_BLOCKS
#define SUM_BLOCKS 4
#endif
// Strips, second reading: the same, but a block has all rows of a strip, and asks for so many of them ahead.
// tune: WRITE_THREADS = 256 [128, 256, 512]
#ifndef WRITE_THREADS
#define WRITE_THREADS 256
#endif
// tune: WRITE_PACKS = 256 [256, 512, 1024]
#ifndef WRITE_PACKS
#define WRITE_PACKS 256
#endif
// tune: WRITE_AHEAD = 4 [2, 4, 8]
#ifndef WRITE_AHEAD
#define WRITE_AHEAD 4
#endif
// tune: WRITE_BLOCKS = 4 [2, 3, 4, 8]
#ifndef WRITE_BLOCKS
#define WRITE_BLOCKS 4
#endif
// Whether blocks stay and take one strip after another, or there is one for every strip, in the second reading.
// tune: WRITE_STAY = 0 [0, 1]
#ifndef WRITE_STAY
#define WRITE_STAY 0
#endif
// Whether the second reading goes backwards.
// tune: REVERSE = 1 [0, 1]
#ifndef REVERSE
#define REVERSE 1
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
  float2* parts;  // column sums of each block, for gain and bias, in the order of `place`
  int rows, cols;
  int team, teams;  // threads of a team, teams of a block
};

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ uint4 load16(uint32_t from) {
  uint4 bits;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "r"(from)
               : "memory");
  return bits;
}

// Sums of a team's warps, apart for the two numbers, and zeros behind them; twice, for rows in turn.
struct alignas(512) Partial {
  float at[2][2][32];
};
constexpr int kPartials = kMostTeams * sizeof(Partial);

// A team's threads and barrier, and the addresses where a thread leaves its warp's sum and finds four of them.
struct Team {
  int threads, barrier;
  uint32_t to, from;

  __device__ Team(const Partial& partial, int team, int threads) : threads(threads), barrier(team + 1) {
    const int lane = threadIdx.x % 32, warp = (threadIdx.x - team * threads) / 32;
    to = shared_address(&partial.at[0][lane / 16][warp]);
    from = shared_address(&partial.at[0][lane / 8 % 2][lane % 8 * 4]);
  }
};

// Two sums over a warp: the first in its lower half, the second in its upper half, so that two cost hardly more than one.
__device__ __forceinline__ float two_sums(float2 sum) {
  const bool second = threadIdx.x & 16;
  float own = (second ? sum.y : sum.x) + __shfl_xor_sync(0xffffffffu, second ? sum.x : sum.y, 16);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) own += __shfl_xor_sync(0xffffffffu, own, step);
  return own;
}

// Both of two sums for every lane: lanes without `bit` have the first, the others the second.
__device__ __forceinline__ float2 both(float own, int bit) {
  const float other = __shfl_xor_sync(0xffffffffu, own, bit);
  const bool second = threadIdx.x & bit;
  return make_float2(second ? other : own, second ? own : other);
}

// Two sums over a team, the same in each of its threads: warps leave theirs, the team meets, and each warp collects all.
// One barrier a row is enough, as the halves of `Partial` take turns.
__device__ __forceinline__ void leave(float own, Team& team) {
  if (threadIdx.x % 16 == 0) asm volatile("st.shared.f32 [%0], %1;" ::"r"(team.to), "f"(own) : "memory");
  team.to ^= sizeof(Partial) / 2;
}

__device__ __forceinline__ void meet(const Team& team) {
  asm volatile("bar.sync %0, %1;" ::"r"(team.barrier), "r"(team.threads) : "memory");
}

__device__ __forceinline__ float2 collect(Team& team) {
  const uint4 four = load16(team.from);
  team.from ^= sizeof(Partial) / 2;
  float own = (__uint_as_float(four.x) + __uint_as_float(four.y)) + (__uint_as_float(four.z) + __uint_as_float(four.w));
#pragma unroll
  for (int step = 4; step > 0; step /= 2) own += __shfl_xor_sync(0xffffffffu, own, step);
  return both(own, 8);
}

__device__ __forceinline__ float2 team_sum(float2 sum, Team& team) {
  const float own = two_sums(sum);
  if (team.threads == 32) return both(own, 16);
  leave(own, team);
  meet(team);
  return collect(team);
}

__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

// A pack stays one: else the compiler keeps the widened numbers from one use to the next, in twice the registers.
template <typename Some>
__device__ __forceinline__ void stay_packed(Some& pack) {
  uint4& bits = reinterpret_cast<uint4&>(pack);
  asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
}

// Teams of one warp hold so much that fewer threads fit.
constexpr bool alone(int vec, int packs) { return vec == 8 && packs > 2; }
constexpr int most_threads(int vec, int packs) { return !alone(vec, packs) ? 1024 : packs > 3 ? 384 : 512; }
constexpr int stages_of(int vec, int packs) { return alone(vec, packs) ? 4 : SLOTS / (2 * packs); }
constexpr bool lagged(int vec, int packs) { return LAGGED && vec == 8 && !alone(vec, packs); }

template <typename scalar_t, int Vec, int Packs, bool Prefetched>
__global__ void __launch_bounds__(most_threads(Vec, Packs), 1) fused(Rows<scalar_t> r) {
  using Some = Pack<scalar_t, Vec>;
  constexpr bool wide = sizeof(scalar_t) == 4;
  constexpr bool again = alone(Vec, Packs);  // reads its elements again for the results, as its registers hold no more
  constexpr int stages = Prefetched ? stages_of(Vec, Packs) : 1;
  extern __shared__ __align__(512) uint4 everything[];
  auto* partial = reinterpret_cast<Partial*>(everything);
  uint4* memory = everything + kPartials / 16;  // slots, and column sums at the end
  const int size = alone(Vec, Packs) ? 32 : r.team;
  const int index = threadIdx.x / size, member = threadIdx.x - index * size;  // of the team, and in it
  const int stride = gridDim.x * r.teams;
  using Place = std::conditional_t<Prefetched, uint32_t, int64_t>;  // of a pack: 32 bits are enough for 64 GiB
  const auto column = [&](int k) { return (k * size + member) * Vec; };

  // A thread reads only what it copied itself, so no barrier guards the slots. Every call makes one group. `at` is this
  // thread's first pack of the row.
  const uint32_t apart = blockDim.x * 16, span = 2 * Packs * apart;  // bytes between a thread's slots, and of a stage
  const uint32_t front = shared_address(memory + threadIdx.x), back = front + stages * span;
  const Place step = static_cast<Place>(stride) * (r.cols / Vec);
  const auto* grads = reinterpret_cast<const Some*>(r.grad_out);
  const auto* values = reinterpret_cast<const Some*>(r.x);
  const auto prefetch = [&](int row, Place at, uint32_t slot) {
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (row < r.rows && column(k) < r.cols) {
        copy16(slot + 2 * k * apart, grads + (at + k * size));
        copy16(slot + (2 * k + 1) * apart, values + (at + k * size));
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  int row = blockIdx.x * r.teams + index;
  uint32_t slot = front;
  Place at = static_cast<Place>(row) * (r.cols / Vec) + member;
  if constexpr (Prefetched) {
#pragma unroll
    for (int s = 0; s < stages; ++s) prefetch(row + s * stride, at + s * step, front + s * span);
#pragma unroll
    for (int k = 0; k < Packs; ++k)  // slots of columns that there are not stay zero
      if (column(k) >= r.cols)
        for (int s = 0; s < stages; ++s)
          for (int i = 0; i < 2; ++i)
            memory[((s * Packs + k) * 2 + i) * blockDim.x + threadIdx.x] = make_uint4(0, 0, 0, 0);
  }
  float next_mean = row < r.rows ? r.mean[row] : 0.0f, next_rstd = row < r.rows ? r.rstd[row] : 0.0f;
  Some gain[Packs] = {};
  float gains[Packs][Vec] = {}, biases[Packs][Vec] = {};
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    if (column(k) < r.cols) gain[k] = *reinterpret_cast<const Some*>(r.weight + column(k));
  if (!alone(Vec, Packs) && (lagged(Vec, Packs) || size > 32)) {
    for (int i = threadIdx.x; i < r.teams * 128; i += blockDim.x) (&partial[0].at[0][0][0])[i] = 0.0f;
    __syncthreads();
  }
  Team team(partial[index], index, size);

  const float share = 1.0f / static_cast<float>(r.cols);
  const auto load = [&](uint32_t slot, int k, int i) {
    const uint4 bits = load16(slot + (2 * k + i) * apart);
    return reinterpret_cast<const Some&>(bits);
  };
  // Of 16-bit numbers one product and sum: the rounding of `shift` is no more than that of the mean.
  struct Known {
    float mean, rstd, shift;
    __device__ float normal(float v) const { return wide ? (v - mean) * rstd : fmaf(v, rstd, shift); }
  };
  const auto next = [&]() -> Known {  // of this row, and asks for those of the team's next one
    const float mean = next_mean, rstd = next_rstd;
    if (row + stride < r.rows) next_mean = r.mean[row + stride], next_rstd = r.rstd[row + stride];
    return {mean, rstd, -mean * rstd};
  };
  // A pack's part in the sums over columns and rows.
  const auto reduce = [&](int k, const Some& grad, const Some& x, const Known& known, float (&inner)[Vec],
                          float2& turned) {
    float g[Vec], v[Vec], w[Vec];
    widen(grad, g), widen(x, v), widen(gain[k], w);
#pragma unroll
    for (int j = 0; j < Vec; ++j) {
      const float hat = known.normal(v[j]);
      inner[j] = g[j] * w[j];  // zero where there is no element, as g is
      gains[k][j] += g[j] * hat;
      biases[k][j] += g[j];
      turned.x += inner[j];
      turned.y += inner[j] * hat;
    }
  };
  // A pack's gradients, once the row's means are known.
  const auto finish = [&](int k, Place at, const Some& x, const Known& known, const float (&inner)[Vec], float2 turned) {
    if (column(k) >= r.cols) return;
    const float rstd = known.rstd, slope = -rstd * rstd * turned.y, level = (known.shift * turned.y + turned.x) * -rstd;
    float v[Vec];
    widen(x, v);
#pragma unroll
    for (int j = 0; j < Vec; ++j)
      v[j] = wide ? (inner[j] - turned.x - known.normal(v[j]) * turned.y) * rstd
                  : fmaf(inner[j], rstd, fmaf(v[j], slope, level));
    if constexpr (sizeof(Some) == 16)
      __stcs(reinterpret_cast<uint4*>(r.grad_x) + (at + k * size), narrow<scalar_t>(v));
    else
      for (int j = 0; j < Vec; ++j) r.grad_x[(at + k * size) * Vec + j] = static_cast<scalar_t>(v[j]);
  };

  if constexpr (lagged(Vec, Packs)) {
    // A row keeps its slots until its second half, which comes after the first half of the next row.
    const auto begin = [&](const Known& known) {
      asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
      float inner[Vec];
      float2 turned = {0.0f, 0.0f};
      reduce(0, load(slot, 0, 0), load(slot, 0, 1), known, inner, turned);
      leave(two_sums(turned), team);
    };
    const auto end = [&](uint32_t slot, Place at, const Known& known) {
      float g[Vec], w[Vec], inner[Vec];
      widen(load(slot, 0, 0), g), widen(gain[0], w);
#pragma unroll
      for (int j = 0; j < Vec; ++j) inner[j] = g[j] * w[j];
      const float2 turned = collect(team);
      finish(0, at, load(slot, 0, 1), known, inner, make_float2(turned.x * share, turned.y * share));
    };
    if (row < r.rows) {
      Known known = next();
      begin(known);
      meet(team);
      while (row + stride < r.rows) {
        const Known before = known;
        const uint32_t old = slot;
        row += stride, at += step, slot = slot + span == back ? front : slot + span;
        known = next();
        begin(known);
        end(old, at - step, before);
        prefetch(row + (stages - 1) * stride, at + (stages - 1) * step, old);
        meet(team);
      }
      end(slot, at, known);
    }
  } else {
    for (; row < r.rows; row += stride, at += step) {
      const Known known = next();
      Some grad[Packs] = {}, x[Packs] = {};
      const auto refill = [&] {
        prefetch(row + stages * stride, at + stages * step, slot);
        slot = slot + span == back ? front : slot + span;
      };
      if constexpr (Prefetched) asm volatile("cp.async.wait_group %0;" ::"n"(stages - 1) : "memory");
#pragma unroll
      for (int k = 0; k < Packs; ++k)
        if constexpr (!Prefetched) {
          if (column(k) < r.cols) grad[k] = grads[at + k * size], x[k] = values[at + k * size];
        } else if constexpr (!again) {
          grad[k] = load(slot, k, 0), x[k] = load(slot, k, 1);
        }
      if constexpr (Prefetched && !again) refill();
      float2 turned = {0.0f, 0.0f};
      float inner[Packs][Vec];
#pragma unroll
      for (int k = 0; k < Packs; ++k) {
        if constexpr (again) grad[k] = load(slot, k, 0), x[k] = load(slot, k, 1);
        reduce(k, grad[k], x[k], known, inner[k], turned);
      }
      turned = team_sum(turned, team);
      turned.x *= share, turned.y *= share;
#pragma unroll
      for (int k = 0; k < Packs; ++k) {
        if constexpr (again) stay_packed(gain[k]), x[k] = load(slot, k, 1);
        finish(k, at, x[k], known, inner[k], turned);
      }
      if constexpr (again) refill();
    }
  }

  // The block's column sums: its teams' by way of shared memory. Neighbours have neighbouring places there and in the
  // parts, which are not in the order of columns therefore.
  constexpr int own = Packs * Vec;
  const int places = own * size, warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const auto place = [&](int i) { return i * size + member; };
  float2 *shared = reinterpret_cast<float2*>(memory), *part = r.parts + static_cast<int64_t>(blockIdx.x) * places;
  if constexpr (Prefetched) asm volatile("cp.async.wait_all;" ::: "memory");
  if (r.teams == 1) {
#pragma unroll
    for (int i = 0; i < own; ++i) part[place(i)] = make_float2(gains[i / Vec][i % Vec], biases[i / Vec][i % Vec]);
  } else {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < own; ++i)
      shared[index * places + place(i)] = make_float2(gains[i / Vec][i % Vec], biases[i / Vec][i % Vec]);
    __syncthreads();
    for (int i = threadIdx.x; i < places; i += blockDim.x) {
      float2 sum = {0.0f, 0.0f};
#pragma unroll 4
      for (int t = 0; t < r.teams; ++t) sum.x += shared[t * places + i].x, sum.y += shared[t * places + i].y;
      part[i] = sum;
    }
  }
  cooperative_groups::this_grid().sync();

  // The sums of all blocks. A lane has two places, and a block as few as leave none for a second turn. Where that is fewer
  // than a warp has lanes, lanes share the parts, as warps do.
  constexpr int batch = 5;  // loads on their way
  const auto* pairs = reinterpret_cast<const float4*>(r.parts);
  int many = 32;
  while (many > 4 && many / 2 * gridDim.x >= places / 2) many /= 2;
  const int sharing = blockDim.x / many;
  for (int first = blockIdx.x * many; first < places / 2; first += gridDim.x * many) {
    const int pair = first + lane % many;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x / many; i < gridDim.x; i += batch * sharing) {
      float4 some[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b)
        some[b] = i + b * sharing < gridDim.x && pair < places / 2
                      ? __ldcg(pairs + static_cast<int64_t>(i + b * sharing) * (places / 2) + pair)
                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int b = 0; b < batch; ++b)
        sum.x += some[b].x, sum.y += some[b].y, sum.z += some[b].z, sum.w += some[b].w;
    }
    for (int step = many; step < 32; step *= 2) {
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, step), sum.y += __shfl_xor_sync(0xffffffffu, sum.y, step);
      sum.z += __shfl_xor_sync(0xffffffffu, sum.z, step), sum.w += __shfl_xor_sync(0xffffffffu, sum.w, step);
    }
    __syncthreads();  // the shared memory may still be read
    if (lane < many) reinterpret_cast<float4*>(memory)[warp * many + lane] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * many && first * 2 + i < places; i += blockDim.x) {
      float2 all = {0.0f, 0.0f};
#pragma unroll 8
      for (int w = 0; w < warps; ++w) all.x += shared[w * 2 * many + i].x, all.y += shared[w * 2 * many + i].y;
      const int which = (first * 2 + i) / size;
      const int col = (which / Vec * size + first * 2 + i - which * size) * Vec + which % Vec;
      if (col >= r.cols) continue;
      r.grad_weight[col] = static_cast<scalar_t>(all.x), r.grad_bias[col] = static_cast<scalar_t>(all.y);
    }
  }
}

constexpr int kStripRows = 16;

// Few and very long rows of floats, first reading. A block has SUM_ROWS rows of every so manieth strip, so that all blocks
// are near each other at any time, and leaves the rows' sums in `sums`: kStripRows pairs of each lot of blocks.
__global__ void __launch_bounds__(SUM_THREADS, SUM_BLOCKS) strip_sums(Rows<float> r, float2* sums) {
  __shared__ float2 partial[SUM_THREADS / 32][SUM_ROWS];
  const int sets = (r.rows + SUM_ROWS - 1) / SUM_ROWS, lot = blockIdx.x / sets, lots = gridDim.x / sets;
  const int first = blockIdx.x % sets * SUM_ROWS, packs = r.cols / 4;
  const auto *grads = reinterpret_cast<const float4*>(r.grad_out), *values = reinterpret_cast<const float4*>(r.x);
  float mean[SUM_ROWS], rstd[SUM_ROWS];
  float2 own[SUM_ROWS] = {};
#pragma unroll
  for (int i = 0; i < SUM_ROWS; ++i) {
    const bool present = first + i < r.rows;
    mean[i] = present ? r.mean[first + i] : 0.0f, rstd[i] = present ? r.rstd[first + i] : 0.0f;
  }
  for (int strip = lot * SUM_PACKS; strip < packs; strip += lots * SUM_PACKS)
    for (int pack = strip + threadIdx.x; pack < min(strip + SUM_PACKS, packs); pack += SUM_THREADS) {
      float4 g[SUM_ROWS] = {}, x[SUM_ROWS] = {};
#pragma unroll
      for (int i = 0; i < SUM_ROWS; ++i)
        if (first + i < r.rows) {
          const unsigned at = static_cast<unsigned>(first + i) * packs + pack;  // fewer than 2^32 packs
          g[i] = __ldg(grads + at), x[i] = __ldg(values + at);
        }
      const float4 w = __ldg(reinterpret_cast<const float4*>(r.weight) + pack);
#pragma unroll
      for (int i = 0; i < SUM_ROWS; ++i) {
        const auto add = [&](float grad, float value, float weight) {
          const float inner = grad * weight;
          own[i].x += inner, own[i].y += inner * ((value - mean[i]) * rstd[i]);
        };
        add(g[i].x, x[i].x, w.x), add(g[i].y, x[i].y, w.y), add(g[i].z, x[i].z, w.z), add(g[i].w, x[i].w, w.w);
      }
    }
#pragma unroll
  for (int i = 0; i < SUM_ROWS; ++i) {
    const float2 sum = make_float2(warp_sum(own[i].x), warp_sum(own[i].y));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32][i] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= SUM_ROWS || first + threadIdx.x >= r.rows) return;
  float2 sum = {0.0f, 0.0f};
  for (int i = 0; i < SUM_THREADS / 32; ++i) sum.x += partial[i][threadIdx.x].x, sum.y += partial[i][threadIdx.x].y;
  sums[lot * kStripRows + first + threadIdx.x] = sum;
}

// Second reading. A thread asks for WRITE_AHEAD rows before it needs them, at the end of a strip for those of its next one.
__global__ void __launch_bounds__(WRITE_THREADS, WRITE_BLOCKS) strip_gradients(Rows<float> r, const float2* sums, int lots) {
  __shared__ float4 known[kStripRows];  // mean, rstd, and the two sums divided by the number of columns
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, packs = r.cols / 4;
  constexpr int steps = WRITE_PACKS / WRITE_THREADS;
  const int strips = (packs + WRITE_PACKS - 1) / WRITE_PACKS;
  const auto *grads = reinterpret_cast<const float4*>(r.grad_out), *values = reinterpret_cast<const float4*>(r.x);
  const auto *weights = reinterpret_cast<const float4*>(r.weight);
  const auto place = [&](int row, int pack) { return static_cast<unsigned>(row) * packs + pack; };  // fewer than 2^32 packs
  // Of the thread's i-th step; `packs` if there is none.
  const auto pack_of = [&](int i) {
    const int strip = blockIdx.x + i / steps * gridDim.x;
    const int pack = (REVERSE ? strips - 1 - strip : strip) * WRITE_PACKS + i % steps * WRITE_THREADS + threadIdx.x;
    return strip < strips ? min(pack, packs) : packs;
  };
  const int count = ((strips - 1 - blockIdx.x) / gridDim.x + 1) * steps;
  float4 g[WRITE_AHEAD] = {}, x[WRITE_AHEAD] = {}, w = {};
  const auto ask = [&](int row, int pack) {
    if (row >= r.rows || pack >= packs) return;
    g[row % WRITE_AHEAD] = __ldg(grads + place(row, pack)), x[row % WRITE_AHEAD] = __ldg(values + place(row, pack));
  };
  int pack = pack_of(0);
#pragma unroll
  for (int row = 0; row < WRITE_AHEAD; ++row) ask(row, pack);
  if (pack < packs) w = __ldg(weights + pack);

  // Every block adds up all lots' sums, a warp one or more rows.
  for (int row = warp; row < r.rows; row += WRITE_THREADS / 32) {
    float2 sum = {0.0f, 0.0f};
    for (int i = lane; i < lots; i += 32) {
      const float2 part = __ldg(sums + i * kStripRows + row);
      sum.x += part.x, sum.y += part.y;
    }
    sum.x = warp_sum(sum.x) / static_cast<float>(r.cols), sum.y = warp_sum(sum.y) / static_cast<float>(r.cols);
    if (lane == 0) known[row] = make_float4(r.mean[row], r.rstd[row], sum.x, sum.y);
  }
  __syncthreads();
  for (int i = 0; i < count; ++i) {
    const int next = pack_of(i + 1);
    const bool present = pack < packs;
    const float4 own = w;
    float4 gain = {}, bias = {};
    if (next < packs) w = __ldg(weights + next);
#pragma unroll
    for (int row = 0; row < kStripRows; ++row) {
      if (row < r.rows && present) {
        const float4 k = known[row], grad = g[row % WRITE_AHEAD], value = x[row % WRITE_AHEAD];
        const auto gradient = [&](float grad, float value, float weight, float& to_gain, float& to_bias) {
          const float hat = (value - k.x) * k.y;
          to_gain += grad * hat, to_bias += grad;
          return (grad * weight - k.z - hat * k.w) * k.y;
        };
        __stcs(reinterpret_cast<float4*>(r.grad_x) + place(row, pack),
               make_float4(gradient(grad.x, value.x, own.x, gain.x, bias.x),
                           gradient(grad.y, value.y, own.y, gain.y, bias.y),
                           gradient(grad.z, value.z, own.z, gain.z, bias.z),
                           gradient(grad.w, value.w, own.w, gain.w, bias.w)));
      }
      const int ahead = row + WRITE_AHEAD;
      ask(ahead % kStripRows, ahead < kStripRows ? pack : next);
    }
    if (present) {
      __stcs(reinterpret_cast<float4*>(r.grad_weight) + pack, gain);
      __stcs(reinterpret_cast<float4*>(r.grad_bias) + pack, bias);
    }
    pack = next;
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
  __shared__ Partial partial;
  Team team(partial, 0, 1024);
  turned = team_sum(turned, team);
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
  r.teams = std::max(1, std::min({most / r.team, r.team > 32 || lagged(Vec, Packs) ? kMostTeams : 32, r.rows / room}));
  const int blocks = std::min(room, (r.rows + r.teams - 1) / r.teams), threads = r.team * r.teams;
  const int slots = Prefetched ? stages_of(Vec, Packs) * 2 * Packs : 0;
  const int bytes = std::max({slots * threads * 16, threads * Packs * Vec * 8, threads * 16}) + kPartials;
  auto parts = torch::empty({blocks, r.team * Packs * Vec, 2}, grad_weight.options().dtype(torch::kFloat32));
  r.parts = reinterpret_cast<float2*>(parts.template data_ptr<float>());
  void* arguments[] = {&r};
  const auto kernel = reinterpret_cast<const void*>(&fused<scalar_t, Vec, Packs, Prefetched>);
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, bytes, stream));
}

void run_strips(const Rows<float>& r, torch::Tensor grad_weight, cudaStream_t stream) {
  static_assert(SUM_PACKS % SUM_THREADS == 0 && WRITE_PACKS % WRITE_THREADS == 0 && kStripRows % WRITE_AHEAD == 0);
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount, packs = r.cols / 4;
  const int sets = (r.rows + SUM_ROWS - 1) / SUM_ROWS, strips = (packs + WRITE_PACKS - 1) / WRITE_PACKS;
  const int lots = std::max(1, std::min({sms * SUM_BLOCKS / sets, MOST_BLOCKS / sets, (packs + SUM_PACKS - 1) / SUM_PACKS}));
  const int blocks = WRITE_STAY ? std::min({sms * WRITE_BLOCKS, MOST_BLOCKS, strips}) : strips;
  auto sums = torch::empty({lots, kStripRows, 2}, grad_weight.options());
  auto* pairs = reinterpret_cast<float2*>(sums.data_ptr<float>());
  strip_sums<<<static_cast<unsigned>(lots * sets), SUM_THREADS, 0, stream>>>(r, pairs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  strip_gradients<<<static_cast<unsigned>(blocks), WRITE_THREADS, 0, stream>>>(r, pairs, lots);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
