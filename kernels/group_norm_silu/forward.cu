// GroupNorm and SiLU. A group is read once: the registers of one block, or of a cluster of blocks that exchange their
// moments, hold it until it is written. Where planes do not split evenly, some warps have less than others or nothing.
// Shapes whose planes do not split into packs take scalar kernels.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// Packs of 16 bytes that a thread holds.
// tune: PACKS = 8 [4, 8]
#ifndef PACKS
#define PACKS 8
#endif
// Packs that a lane has in all warps of a block, before a group is split among the blocks of a cluster (40 KB); at most 20
// warps where the split ends.
// tune: TILE = 80 [40, 80]
#ifndef TILE
#define TILE 80
#endif
// Registers of a thread that holds eight packs: with 48, four blocks of ten warps are side by side in place of three. With
// 16-bit numbers two of the packs lie in shared memory then.
// tune: REGISTERS = 48 [48, 64]
#ifndef REGISTERS
#define REGISTERS 48
#endif
// Packs that a thread works on at a time. Without steps the compiler mixes them all, and nothing is written until the last
// one is done.
// tune: STEP = 1 [1, 8]
#ifndef STEP
#define STEP 1
#endif
// 16-bit numbers: how many share a reciprocal in the sigmoid. It takes the special function unit as long as eight of the
// other instructions; with four each takes half an instruction more than with two.
// tune: SHARED = 2 [2, 4]
#ifndef SHARED
#define SHARED 2
#endif
// The largest cluster; 8 is what every GPU with clusters has.
#ifndef CLUSTER
#define CLUSTER 8
#endif
// Fewer warps than this in all: a thread holds fewer packs.
#ifndef FEW_WARPS
#define FEW_WARPS 1024
#endif
// Uneven splits: how much of what the threads could hold they must at least hold, in percent; how much more of it half as
// many packs must fill to be taken instead, in percent; and whether a cluster may have any number of blocks, or powers of
// two only.
// tune: RAGGED_FILL = 25 [12, 25, 50]
#ifndef RAGGED_FILL
#define RAGGED_FILL 25
#endif
// tune: RAGGED_GAIN = 125 [100, 125, 150]
#ifndef RAGGED_GAIN
#define RAGGED_GAIN 125
#endif
// tune: ODD_CLUSTERS = 1 [0, 1]
#ifndef ODD_CLUSTERS
#define ODD_CLUSTERS 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kMostWarps = 20;       // of a block
constexpr unsigned kAll = 0xffffffffu;

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

// Sixteen bytes as floats, and back, rounded to nearest. Two 16-bit numbers share a word.
template <typename scalar_t>
__device__ void unpack(uint4 raw, float (&v)[kVec<scalar_t>]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
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

template <typename scalar_t>
__device__ uint4 packed(const float (&v)[kVec<scalar_t>]) {
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

// What is held stays sixteen bytes: without this the compiler keeps the widened numbers from one pass to the next, in
// twice the registers.
template <int Packs>
__device__ void keep_packed(uint4 (&held)[Packs]) {
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    asm volatile("" : "+r"(held[k].x), "+r"(held[k].y), "+r"(held[k].z), "+r"(held[k].w));
}

// 1 / (1 + e^-x) by the hardware's exp2 and reciprocal: a few units of roundoff of float32, and 0 where e^-x overflows.
// The forms that flush denormals, since no step of this can need them, are one instruction each.
__device__ float sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.44269504f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

__device__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

// The sum over the block in every thread; `partial` has room for each of at most 32 warps, and is used once only.
__device__ float block_sum(float value, float* partial) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f);
}

// Which of a group's channels the entry i is in, by a multiplication: exact for i below two million.
__device__ int channel_of(int i, float per_plane) { return static_cast<int>((static_cast<float>(i) + 0.5f) * per_plane); }

// A cluster's blocks share a group. Its warps tell every block two numbers: eight bytes that are written at once, into a
// slot that holds kNothing until then. So whoever reads it sees both or neither, and no fence has to come between.
constexpr uint64_t kNothing = ~uint64_t{0};
__device__ void cluster_arrive(bool release) {
  if (release)
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  else
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ void tell(const uint64_t* slot, unsigned block, float2 value) {
  const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(slot));
  uint64_t both = static_cast<uint64_t>(__float_as_uint(value.y)) << 32 | __float_as_uint(value.x);
  if (both == kNothing) both = kNothing - 1;  // another NaN
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
  asm volatile("st.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(there), "l"(both) : "memory");
}
__device__ float2 heard(const uint64_t* slot) {
  const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(slot));
  uint64_t both;
  do {
    asm volatile("ld.relaxed.cluster.shared::cta.b64 %0, [%1];" : "=l"(both) : "r"(own) : "memory");
  } while (both == kNothing);
  return make_float2(__uint_as_float(static_cast<uint32_t>(both)), __uint_as_float(static_cast<uint32_t>(both >> 32)));
}

// How a group of `count` entries in planes of `plane` is held on chip: each warp has Packs * 32 packs in a row, all of
// one channel, `warps` warps make a block, `blocks` blocks (one, or a cluster) the group. Nothing fits: packs is 0.
struct Plan {
  int packs, warps, blocks;
  int length = packs * 32;  // packs of a warp
  bool ragged = false;      // a channel's last warp may have fewer, and the last warps nothing
};

Plan plan_with(int packs, int64_t count, int64_t plane, int64_t groups, int vec) {
  const int64_t chunk = packs * 32 * vec, chunks = count / chunk;
  if (plane % chunk != 0 || chunks > CLUSTER * kMostWarps) return {0, 0, 0};
  if (packs > 2 && plane % (chunk / 2) == 0 && chunks * groups < FEW_WARPS && 2 * chunks <= CLUSTER * kMostWarps)
    return {0, 0, 0};  // too few warps to fill the GPU: smaller pieces
  for (int blocks = 1; blocks <= CLUSTER && chunks % blocks == 0; blocks *= 2) {
    const int64_t warps = chunks / blocks;
    const bool ends = 2 * blocks > CLUSTER || chunks % (2 * blocks) != 0;
    if (warps <= (ends ? kMostWarps : std::min(TILE / packs, kMostWarps))) return {packs, static_cast<int>(warps), blocks};
  }
  return {0, 0, 0};
}

// Any planes of `row` packs: as few blocks as will do, and the warps of a channel have nearly the same.
Plan ragged_plan(int64_t share, int64_t row, int64_t groups) {
  Plan plan = {0, 0, 0};
  int64_t fill = 0;
  for (int packs = 8; packs >= 2; packs /= 2) {
    const int64_t pieces = (row + packs * 32 - 1) / (packs * 32), chunks = share * pieces;
    if (chunks > CLUSTER * kMostWarps) break;
    if (packs > 2 && chunks * groups < FEW_WARPS && 2 * chunks <= CLUSTER * kMostWarps) continue;
    const int64_t most = std::min(TILE / packs, kMostWarps);
    int64_t blocks = std::min<int64_t>((chunks + most - 1) / most, CLUSTER);
    while (!ODD_CLUSTERS && (blocks & (blocks - 1)) != 0) ++blocks;
    const int64_t warps = (chunks + blocks - 1) / blocks, filled = 100 * share * row / (blocks * warps * packs * 32);
    if (filled < RAGGED_FILL || 100 * filled < RAGGED_GAIN * fill) continue;
    const int64_t length = ((row + pieces - 1) / pieces + 31) / 32 * 32;
    plan = {packs, static_cast<int>(warps), static_cast<int>(blocks), static_cast<int>(length), true};
    fill = filled;
  }
  return plan;
}

// The usual number of packs, or fewer, or more where the group is too long; evenly if that can be.
Plan plan_for(int64_t share, int64_t plane, int64_t groups, int vec) {
  const int64_t count = share * plane;
  Plan plan = {0, 0, 0};
  for (int packs = PACKS; packs >= 2 && plan.packs == 0; packs /= 2) plan = plan_with(packs, count, plane, groups, vec);
  for (int packs = 2 * PACKS; packs <= 8 && plan.packs == 0; packs *= 2) plan = plan_with(packs, count, plane, groups, vec);
  return plan.packs == 0 && plane % vec == 0 ? ragged_plan(share, plane / vec, groups) : plan;
}

// One block a group, or a cluster of them.
template <typename... Formal, typename... Actual>
void launch_plan(void (*kernel)(Formal...), const Plan& plan, int64_t groups, int bytes, Actual... arguments) {
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.y = static_cast<unsigned>(plan.blocks);
  cluster.val.clusterDim.x = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups), static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps * 32));
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &cluster;
  config.numAttrs = plan.blocks > 1 ? 1 : 0;
  if (bytes > 40960) C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

template <typename scalar_t>
struct Groups {
  const scalar_t *x, *weight, *bias;
  scalar_t* out;
  int groups, share;  // of an image; channels of a group
  int64_t plane;
  float eps;
  int pieces, length;  // warps of a channel; packs of each but the last
  float per_piece, per_count, per_groups;  // one over the pieces, the entries of a group, the groups
  __device__ int64_t count() const { return share * plane; }
  // Packs that the warp `chunk` has of its channel: zero beyond the last channel.
  __device__ int packs_of(int chunk) const {
    const int row = static_cast<int>(plane / kVec<scalar_t>), piece = chunk - channel_of(chunk, per_piece) * pieces;
    return chunk < share * pieces ? min(length, row - piece * length) : 0;
  }
};

__device__ float activated(float x, float mean, float scale, float shift) {
  const float y = (x - mean) * scale + shift;
  return y * sigmoid(y);
}

// SiLU of a pack's entries, scaled and shifted. With 16-bit entries the special function unit is nearly as busy as memory,
// so some of them share a reciprocal: e^-y is cut off at 2^60 (2^31 if four share it), and their product stays finite.
// There the caller has put the mean into the shift, since the entries themselves are rounded more coarsely than their
// product with the scale, and the factor of the exponent into both.
constexpr float kPower = -1.44269504f, kLevel = -0.693147181f;  // e^-y = 2^(kPower * y), and back

template <typename scalar_t>
__device__ void activate(float (&v)[kVec<scalar_t>], float mean, float scale, float shift) {
  if constexpr (sizeof(scalar_t) == 4) {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j) v[j] = activated(v[j], mean, scale, shift);
  } else {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; j += SHARED) {
      float more[SHARED], inverse;  // 1 + e^-y
#pragma unroll
      for (int i = 0; i < SHARED; ++i) {
        v[j + i] = v[j + i] * scale + shift;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(more[i]) : "f"(fminf(v[j + i], SHARED == 2 ? 60.0f : 31.0f)));
        more[i] += 1.0f;
      }
      const float first = more[0] * more[1], second = SHARED == 2 ? 1.0f : more[SHARED - 2] * more[SHARED - 1];
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(first * second));
      inverse *= kLevel;
      const float of_first = second * inverse, of_second = first * inverse;
      v[j] *= more[1] * of_first, v[j + 1] *= more[0] * of_first;
      if constexpr (SHARED == 4) v[j + 2] *= more[3] * of_second, v[j + 3] *= more[2] * of_second;
    }
  }
}

// Mean and sum of squares around it, of equally many entries each: of a thread's packs, then of a warp's lanes, by Chan's
// formula. It loses no digits, and equal entries have their own value as mean. Ragged: of the lane's first `own_packs` only.
template <typename scalar_t, int Packs, bool Ragged, typename Pack, typename Has>
__device__ float2 warp_moments(const Pack& pack, const Has& has, int own_packs) {
  constexpr int Vec = kVec<scalar_t>;
  float mean = 0.0f, square = 0.0f, size = static_cast<float>(own_packs);
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (!has(k)) continue;
    float v[Vec], sums[Vec], own = 0.0f;
    unpack<scalar_t>(pack(k), v);
#pragma unroll
    for (int j = 0; j < Vec; ++j) sums[j] = v[j];
#pragma unroll
    for (int step = Vec / 2; step > 0; step /= 2)
#pragma unroll
      for (int j = 0; j < step; ++j) sums[j] += sums[j + step];
    const float middle = sums[0] * (1.0f / Vec), apart = middle - mean;
#pragma unroll
    for (int j = 0; j < Vec; ++j) own += (v[j] - middle) * (v[j] - middle);
    mean += apart * (1.0f / (k + 1));
    square += own + apart * apart * (Vec * static_cast<float>(k) / (k + 1));
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_xor_sync(kAll, mean, step), apart = other - mean;
    if constexpr (Ragged) {
      const float more = __shfl_xor_sync(kAll, size, step), all = size + more;
      const float share = all > 0.0f ? __fdividef(more, all) : 0.0f;
      square += __shfl_xor_sync(kAll, square, step) + apart * apart * (Vec * size * share);
      mean += apart * share, size = all;
      continue;
    }
    square += __shfl_xor_sync(kAll, square, step) + apart * apart * (0.5f * Packs * Vec * step);
    mean = 0.5f * (mean + other);
  }
  return make_float2(mean, square);
}

// The same of `count` warps, by every lane of a warp: moments(i) are the i-th's, who had `each` entries weight(i) times,
// and all of them `weights` times.
template <typename Moments, typename Weight>
__device__ float2 join_moments(const Moments& moments, int count, float each, float weights, const Weight& weight) {
  const int lane = threadIdx.x % 32;
  const float pivot = moments(0).x;
  float mean = 0.0f, square = 0.0f;
#pragma unroll 1
  for (int i = lane; i < count; i += 32) mean += (moments(i).x - pivot) * weight(i);
  mean = pivot + __fdividef(warp_sum(mean), weights);
#pragma unroll 1
  for (int i = lane; i < count; i += 32) {
    const float2 of = moments(i);
    square += of.y + each * weight(i) * (of.x - mean) * (of.x - mean);
  }
  return make_float2(mean, warp_sum(square));
}

// Packs in shared memory, and registers: enough to hold the others. More would let the compiler interleave more, at the
// price of blocks side by side.
template <typename scalar_t, int Packs>
constexpr int kShelf = Packs == 8 && REGISTERS < 64 && sizeof(scalar_t) == 2 ? 2 : 0;
template <int Packs>
constexpr int kRegisters = Packs == 8 ? REGISTERS : 48;

// The group in registers, or partly in shared memory. Its warps tell their moments to all blocks of the cluster.
template <typename scalar_t, int Packs, bool Clustered, bool Ragged>
__global__ void __maxnreg__(kRegisters<Packs>) group_held(Groups<scalar_t> g, int blocks) {
  constexpr int Vec = kVec<scalar_t>, Shelf = kShelf<scalar_t, Packs>, Held = Packs - Shelf;
  extern __shared__ uint4 shelf[];
  __shared__ uint64_t told[CLUSTER * kMostWarps];
  __shared__ float2 joined;
  // The same for all lanes, which the compiler could not know otherwise.
  const int warp = __shfl_sync(kAll, threadIdx.x / 32, 0);
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32, chunks = warps * blocks, group = blockIdx.x;
  const int chunk = (Clustered ? blockIdx.y * warps : 0) + warp;
  const int row = static_cast<int>(g.plane / Vec);
  const int within = min(channel_of(chunk, g.per_piece), g.share - 1);  // the channel's place in the group
  // Packs before the lane's first one; those of all groups are fewer than 2^31.
  const int start = Ragged ? (group * g.share + within) * row + (chunk - within * g.pieces) * g.length + lane
                           : group * (g.share * row) + chunk * (Packs * 32) + lane;
  const int own_packs = Ragged ? max(g.packs_of(chunk) - lane + 31, 0) / 32 : Packs;  // of the lane
  const auto has = [&](int k) { return !Ragged || k < own_packs; };
  // The same, but known only at run time where a step begins.
  const auto next = [&](int k) { return Ragged ? has(k) : k % STEP != 0 || k == 0 || k * 32 < g.length; };
  const uint4* from = reinterpret_cast<const uint4*>(g.x) + start;
  uint4 held[Held] = {};
  // A thread reads only what it copied itself, so no barrier guards the shelf.
  const auto slot = [&](int k) { return shelf + (k - Held) * blockDim.x + threadIdx.x; };
  const auto pack = [&](int k) { return k < Held ? held[k] : *slot(k); };
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (!has(k)) continue;
    if (k < Held)
      held[k] = __ldcs(from + k * 32);
    else
      copy16(slot(k), from + k * 32);
  }
  const int channel = (group - channel_of(group, g.per_groups) * g.groups) * g.share + within;
  const scalar_t gain = g.weight[channel], shift = g.bias[channel];
  if constexpr (Clustered) {
    // Before anything is told to a block, its slots must hold nothing.
    if (warp == 0)
#pragma unroll 1
      for (int i = lane; i < chunks; i += 32) told[i] = kNothing;
    cluster_arrive(warp == 0);
  }
  __syncwarp();  // or the compiler has loads wait until others have been used
  const auto arrived = [&](int k) {
    if (k == Held) asm volatile("cp.async.wait_all;" ::: "memory");
    return pack(k);
  };
  const float2 own = warp_moments<scalar_t, Packs, Ragged>(arrived, next, own_packs);
  const auto weight = [&](int i) { return Ragged ? static_cast<float>(g.packs_of(i)) : 1.0f; };
  const float each = Ragged ? Vec : Packs * 32 * Vec, weights = static_cast<float>(Ragged ? g.share * row : chunks);
  float2 moments;
  if constexpr (Clustered) {
    cluster_wait();
    if (lane < blocks) tell(&told[chunk], lane, own);
    if (warp == 0) {  // only one warp looks again and again
      moments = join_moments([&](int i) { return heard(&told[i]); }, chunks, each, weights, weight);
      if (lane == 0) joined = moments;
    }
    __syncthreads();
    moments = joined;
  } else {
    float2* plain = reinterpret_cast<float2*>(told);
    if (lane == 0) plain[chunk] = own;
    __syncthreads();
    moments = join_moments([&](int i) { return plain[i]; }, chunks, each, weights, weight);
  }
  float scale = static_cast<float>(gain) * rsqrtf(moments.y * g.per_count + g.eps), level = static_cast<float>(shift);
  if constexpr (sizeof(scalar_t) == 2) level = (level - moments.x * scale) * kPower, scale *= kPower;
  keep_packed(held);
  uint4* to = reinterpret_cast<uint4*>(g.out) + start;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (!next(k)) continue;
    float v[Vec];
    unpack<scalar_t>(pack(k), v);
    activate<scalar_t>(v, moments.x, scale, level);
    __stcs(to + k * 32, packed<scalar_t>(v));
  }
}

constexpr int kScalars = 16;  // entries that a thread of the scalar kernels holds

template <typename scalar_t>
__device__ void finish(const Groups<scalar_t>& g, int group, int i, float x, float mean, float rstd, float per_plane) {
  const int channel = group % g.groups * g.share + channel_of(i, per_plane);
  g.out[group * g.count() + i] = static_cast<scalar_t>(
      activated(x, mean, static_cast<float>(g.weight[channel]) * rstd, static_cast<float>(g.bias[channel])));
}

// Any plane, a group that one block's registers hold, a scalar at a time.
template <typename scalar_t>
__global__ void __launch_bounds__(1024) group_scalar(Groups<scalar_t> g) {
  __shared__ float sums[32], squares[32];
  const int group = blockIdx.x, count = static_cast<int>(g.count());
  const scalar_t* from = g.x + group * g.count();
  float held[kScalars], sum = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < kScalars; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    held[k] = i < count ? static_cast<float>(from[i]) : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kScalars; ++k) sum += held[k];
  const float mean = block_sum(sum, sums) / static_cast<float>(count);
#pragma unroll
  for (int k = 0; k < kScalars; ++k)
    if (threadIdx.x + k * blockDim.x < count) square += (held[k] - mean) * (held[k] - mean);
  const float rstd = rsqrtf(block_sum(square, squares) / static_cast<float>(count) + g.eps);
  const float per_plane = 1.0f / static_cast<float>(g.plane);
#pragma unroll
  for (int k = 0; k < kScalars; ++k)
    if (const int i = threadIdx.x + k * blockDim.x; i < count) finish(g, group, i, held[k], mean, rstd, per_plane);
}

// A group too long for one block is split into parts. First the mean of each part and the squares around it.
constexpr int kPartThreads = 256, kPart = kPartThreads * kScalars;

template <typename scalar_t>
__global__ void __launch_bounds__(kPartThreads) part_moments(Groups<scalar_t> g, float2* moments) {
  __shared__ float sums[32], squares[32];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kPart;
  const int size = static_cast<int>(min(static_cast<int64_t>(kPart), g.count() - begin));
  const scalar_t* from = g.x + blockIdx.y * g.count() + begin;
  float held[kScalars], sum = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < kScalars; ++k) {
    const int i = threadIdx.x + k * kPartThreads;
    held[k] = i < size ? static_cast<float>(from[i]) : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kScalars; ++k) sum += held[k];
  const float mean = block_sum(sum, sums) / static_cast<float>(size);
#pragma unroll
  for (int k = 0; k < kScalars; ++k)
    if (threadIdx.x + k * kPartThreads < size) square += (held[k] - mean) * (held[k] - mean);
  square = block_sum(square, squares);
  if (threadIdx.x == 0) moments[blockIdx.y * gridDim.x + blockIdx.x] = make_float2(mean, square);
}

// Then every part joins the moments of its group and finishes its entries.
template <typename scalar_t>
__global__ void __launch_bounds__(kPartThreads) part_finish(Groups<scalar_t> g, const float2* moments) {
  __shared__ float sums[32], squares[32];
  const int parts = gridDim.x, group = blockIdx.y;
  const int64_t count = g.count(), begin = static_cast<int64_t>(blockIdx.x) * kPart;
  const int size = static_cast<int>(min(static_cast<int64_t>(kPart), count - begin));
  const scalar_t* from = g.x + group * count + begin;
  float held[kScalars];
#pragma unroll
  for (int k = 0; k < kScalars; ++k) {
    const int i = threadIdx.x + k * kPartThreads;
    held[k] = i < size ? static_cast<float>(from[i]) : 0.0f;
  }
  const auto share = [&](int part) {
    return static_cast<float>(min(static_cast<int64_t>(kPart), count - static_cast<int64_t>(part) * kPart));
  };
  float sum = 0.0f, square = 0.0f;
  for (int part = threadIdx.x; part < parts; part += kPartThreads) sum += moments[group * parts + part].x * share(part);
  const float mean = block_sum(sum, sums) / static_cast<float>(count);
  for (int part = threadIdx.x; part < parts; part += kPartThreads) {
    const float2 of = moments[group * parts + part];
    square += of.y + share(part) * (of.x - mean) * (of.x - mean);
  }
  const float rstd = rsqrtf(block_sum(square, squares) / static_cast<float>(count) + g.eps);
#pragma unroll
  for (int k = 0; k < kScalars; ++k)
    if (const int i = threadIdx.x + k * kPartThreads; i < size) {
      const int channel = group % g.groups * g.share + static_cast<int>((begin + i) / g.plane);
      g.out[group * count + begin + i] = static_cast<scalar_t>(activated(
          held[k], mean, static_cast<float>(g.weight[channel]) * rstd, static_cast<float>(g.bias[channel])));
    }
}

template <typename scalar_t, int Packs>
void launch_held(const Groups<scalar_t>& g, const Plan& plan, int64_t groups) {
  const auto kernel = plan.blocks > 1 ? plan.ragged ? group_held<scalar_t, Packs, true, true>
                                                    : group_held<scalar_t, Packs, true, false>
                      : plan.ragged   ? group_held<scalar_t, Packs, false, true>
                                      : group_held<scalar_t, Packs, false, false>;
  launch_plan(kernel, plan, groups, kShelf<scalar_t, Packs> * plan.warps * 512, g, plan.blocks);
}

template <typename scalar_t>
void launch(Groups<scalar_t> g, int64_t groups, torch::Tensor x) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = g.share * g.plane;
  const bool aligned = reinterpret_cast<uintptr_t>(g.x) % 16 == 0 && reinterpret_cast<uintptr_t>(g.out) % 16 == 0;
  if (groups == 0 || count == 0) return;
  const Plan plan = plan_for(g.share, g.plane, groups, kVec<scalar_t>);
  if (aligned && plan.packs > 0 && groups * count / kVec<scalar_t> < INT32_MAX) {
    g.length = plan.length;
    g.pieces = static_cast<int>((g.plane / kVec<scalar_t> + plan.length - 1) / plan.length);
    g.per_piece = 1.0f / static_cast<float>(g.pieces), g.per_groups = 1.0f / static_cast<float>(g.groups);
    g.per_count = static_cast<float>(1.0 / static_cast<double>(count));
    const auto run = plan.packs == 8   ? launch_held<scalar_t, 8>
                     : plan.packs == 4 ? launch_held<scalar_t, 4>
                                       : launch_held<scalar_t, 2>;
    return run(g, plan, groups);
  }
  if (count <= 1024 * kScalars) {
    const int64_t threads = std::min<int64_t>((count / 4 + 31) / 32 * 32, 1024);
    group_scalar<scalar_t><<<static_cast<unsigned>(groups), static_cast<unsigned>(std::max<int64_t>(threads, 32)), 0, stream>>>(g);
  } else {
    const dim3 grid(static_cast<unsigned>((count + kPart - 1) / kPart), static_cast<unsigned>(groups));
    auto moments = torch::empty({groups, static_cast<int64_t>(grid.x), 2}, x.options().dtype(torch::kFloat32));
    float2* to = reinterpret_cast<float2*>(moments.data_ptr<float>());
    part_moments<scalar_t><<<grid, kPartThreads, 0, stream>>>(g, to);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    part_finish<scalar_t><<<grid, kPartThreads, 0, stream>>>(g, to);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(x.size(0) * groups < 65536, "too many groups");
  auto out = torch::empty_like(x);
  DISPATCH(x, "group_norm_silu", [&] {
    const Groups<scalar_t> g = {x.data_ptr<scalar_t>(),   weight.data_ptr<scalar_t>(),
                                bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
                                static_cast<int>(groups), static_cast<int>(x.size(1) / groups),
                                x.size(2) * x.size(3),    static_cast<float>(eps),
                                0,                        0,
                                0.0f,                     0.0f,
                                0.0f};
    launch(g, x.size(0) * groups, x);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
