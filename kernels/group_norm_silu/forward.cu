// GroupNorm and SiLU. A group is read once: the registers of one block, or of a cluster of blocks that exchange their
// moments, hold it until it is written. Where there are more groups than fit on the GPU, the blocks stay and take one
// after another; shared memory already fetches the next groups while one is reduced and written. Shapes whose planes do
// not split into packs take scalar kernels.
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
// Whether blocks stay and fetch groups ahead.
// tune: AHEAD = 0 [0, 1]
#ifndef AHEAD
#define AHEAD 0
#endif
// Blocks that stay, on an SM; and how many SMs are used at most.
#ifndef RESIDENT
#define RESIDENT 2
#endif
#ifndef MOST_SMS
#define MOST_SMS 65536
#endif
// The largest cluster; 8 is what every GPU with clusters has.
#ifndef CLUSTER
#define CLUSTER 8
#endif
// Fewer warps than this in all: a thread holds fewer packs.
#ifndef FEW_WARPS
#define FEW_WARPS 1024
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

// A cluster's blocks share a group. Each tells every one of them two numbers.
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void tell(const float2* slot, unsigned block, float2 value) {
  const unsigned own = static_cast<unsigned>(__cvta_generic_to_shared(slot));
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(value.x), "f"(value.y) : "memory");
}

// How a group of `count` entries in planes of `plane` is held on chip: each warp has Packs * 32 packs in a row, all of
// one channel, `warps` warps make a block, `blocks` blocks (one, or a cluster) the group. Nothing fits: packs is 0.
struct Plan {
  int packs, warps, blocks;
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

// The usual number of packs, or fewer, or more where the group is too long.
Plan plan_for(int64_t count, int64_t plane, int64_t groups, int vec) {
  Plan plan = {0, 0, 0};
  for (int packs = PACKS; packs >= 2 && plan.packs == 0; packs /= 2) plan = plan_with(packs, count, plane, groups, vec);
  for (int packs = 2 * PACKS; packs <= 8 && plan.packs == 0; packs *= 2) plan = plan_with(packs, count, plane, groups, vec);
  return plan;
}

// How many blocks or clusters work on the groups. If not all groups fit on the GPU at once, as many as do, or fewer if
// those need no more rounds. An odd rest of SMs is left out, as a cluster needs its SMs close together.
int64_t staying(const Plan& plan, int64_t groups) {
  int64_t sms = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, MOST_SMS);
  if (sms > 2 * plan.blocks) sms -= sms % (2 * plan.blocks);
  const int64_t room = std::max<int64_t>(RESIDENT * sms / plan.blocks, 1);
  if (!AHEAD || groups <= room) return groups;
  const int64_t rounds = (groups + room - 1) / room;
  return (groups + rounds - 1) / rounds;
}

// `count` blocks, or clusters of them.
template <typename... Formal, typename... Actual>
void launch_plan(void (*kernel)(Formal...), const Plan& plan, int64_t count, int bytes, Actual... arguments) {
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(plan.blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(count * plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps * 32));
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &cluster;
  config.numAttrs = plan.blocks > 1 ? 1 : 0;
  if (bytes > 0) C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
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
  __device__ int64_t count() const { return share * plane; }
};

__device__ float activated(float x, float mean, float scale, float shift) {
  const float y = (x - mean) * scale + shift;
  return y * sigmoid(y);
}

// SiLU of a pack's entries, scaled and shifted. With 16-bit entries the special function unit is nearly as busy as memory,
// so two of them share a reciprocal: e^-y is cut off where no 16-bit result can tell, and the product stays finite. There
// the mean may go into the shift, too: the entries themselves are rounded more coarsely than their product with the scale.
template <typename scalar_t>
__device__ void activate(float (&v)[kVec<scalar_t>], float mean, float scale, float shift) {
  if constexpr (sizeof(scalar_t) == 4) {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j) v[j] = activated(v[j], mean, scale, shift);
  } else {
    const float offset = shift - mean * scale;
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; j += 2) {
      const float a = v[j] * scale + offset, b = v[j + 1] * scale + offset;
      float ea, eb, inverse;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(ea) : "f"(fminf(-1.44269504f * a, 60.0f)));
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(eb) : "f"(fminf(-1.44269504f * b, 60.0f)));
      ea += 1.0f, eb += 1.0f;
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(ea * eb));
      v[j] = a * (eb * inverse), v[j + 1] = b * (ea * inverse);
    }
  }
}

// Mean and sum of squares around it, of equally many entries each: of a thread's packs, then of a warp's lanes, by Chan's
// formula. It loses no digits, and equal entries have their own value as mean.
template <typename scalar_t, int Packs>
__device__ float2 warp_moments(const uint4 (&held)[Packs]) {
  constexpr int Vec = kVec<scalar_t>;
  float mean = 0.0f, square = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    float v[Vec], sums[Vec], own = 0.0f;
    unpack<scalar_t>(held[k], v);
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
    square += __shfl_xor_sync(kAll, square, step) + apart * apart * (0.5f * Packs * Vec * step);
    mean = 0.5f * (mean + other);
  }
  return make_float2(mean, square);
}

// The same of `count` warps that had `each` entries, by every warp for itself.
__device__ float2 join_moments(const float2* moments, int count, float each) {
  const int lane = threadIdx.x % 32;
  const float pivot = moments[0].x;
  float mean = 0.0f, square = 0.0f;
  for (int i = lane; i < count; i += 32) mean += moments[i].x - pivot;
  mean = pivot + warp_sum(mean) / static_cast<float>(count);
  for (int i = lane; i < count; i += 32) square += moments[i].y + each * (moments[i].x - mean) * (moments[i].x - mean);
  return make_float2(mean, warp_sum(square));
}

// Enough to hold the packs; more would let the compiler interleave more, at the price of blocks side by side.
template <int Packs, bool Ahead>
constexpr int kRegisters = Packs <= 4 ? 48 : Ahead ? 96 : 64;
constexpr int kStages = 2;  // groups that are fetched ahead

// The group in registers. Every warp tells its moments to all blocks of the cluster, so there is one barrier a group.
template <typename scalar_t, int Packs, bool Clustered, bool Ahead>
__global__ void __maxnreg__((kRegisters<Packs, Ahead>)) group_held(Groups<scalar_t> g, int blocks, int total) {
  constexpr int Vec = kVec<scalar_t>;
  extern __shared__ uint4 slots[];
  __shared__ float2 told[2][8 * kMostWarps];  // of this group and the next
  unsigned rank = 0;
  if constexpr (Clustered) {
    rank = cluster_rank();
    cluster_arrive();  // before anything is told to a block, it must have begun
  }
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32, chunk = rank * warps + threadIdx.x / 32;
  const int begin = blockIdx.x / blocks, step = gridDim.x / blocks;
  const int within = chunk / static_cast<int>(g.plane / (Packs * 32 * Vec));  // the channel's place in the group
  const int each = static_cast<int>(g.count() / Vec);  // packs of a group; those of all are fewer than 2^31
  const auto place = [&](int group) { return group * each + chunk * (Packs * 32) + lane; };
  // A thread reads only what it copied itself, so no barrier guards the slots. Every call makes one group of copies.
  const auto slot = [&](int stage, int k) { return slots + (stage * Packs + k) * blockDim.x + threadIdx.x; };
  const auto prefetch = [&](int group, int stage) {
    if (group < total) {
      const uint4* from = reinterpret_cast<const uint4*>(g.x) + place(group);
#pragma unroll
      for (int k = 0; k < Packs; ++k) copy16(slot(stage, k), from + k * 32);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if constexpr (Ahead) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) prefetch(begin + stage * step, stage);
  }
  int stage = 0, half = 0;
  for (int group = begin; group < total; group += step, half ^= 1) {
    uint4 held[Packs];
    const int channel = group % g.groups * g.share + within;
    const scalar_t gain = g.weight[channel], shift = g.bias[channel];
    if constexpr (Ahead) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
#pragma unroll
      for (int k = 0; k < Packs; ++k) held[k] = *slot(stage, k);
      keep_packed(held);  // read before the slot is written again
      prefetch(group + kStages * step, stage);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    } else {
#pragma unroll
      for (int k = 0; k < Packs; ++k) held[k] = __ldcs(reinterpret_cast<const uint4*>(g.x) + place(group) + k * 32);
    }
    const float2 own = warp_moments<scalar_t>(held);
    if constexpr (Clustered) {
      if (group == begin) cluster_wait();
      if (lane < blocks) tell(&told[half][chunk], lane, own);
      cluster_arrive();
      cluster_wait();
    } else {
      if (lane == 0) told[half][chunk] = own;
      __syncthreads();
    }
    const float2 moments = join_moments(told[half], warps * blocks, Packs * 32 * Vec);
    const float rstd = rsqrtf(moments.y / static_cast<float>(g.count()) + g.eps);
    keep_packed(held);
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      float v[Vec];
      unpack<scalar_t>(held[k], v);
      activate<scalar_t>(v, moments.x, static_cast<float>(gain) * rstd, static_cast<float>(shift));
      __stcs(reinterpret_cast<uint4*>(g.out) + place(group) + k * 32, packed<scalar_t>(v));
    }
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
  const int64_t count = staying(plan, groups);
  const bool ahead = count < groups;
  launch_plan(plan.blocks > 1 ? ahead ? group_held<scalar_t, Packs, true, true> : group_held<scalar_t, Packs, true, false>
              : ahead         ? group_held<scalar_t, Packs, false, true>
                              : group_held<scalar_t, Packs, false, false>,
              plan, count, ahead ? kStages * Packs * plan.warps * 512 : 0, g, plan.blocks, static_cast<int>(groups));
}

template <typename scalar_t>
void launch(const Groups<scalar_t>& g, int64_t groups, torch::Tensor x) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t count = g.share * g.plane;
  const bool aligned = reinterpret_cast<uintptr_t>(g.x) % 16 == 0 && reinterpret_cast<uintptr_t>(g.out) % 16 == 0;
  const Plan plan = plan_for(count, g.plane, groups, kVec<scalar_t>);
  if (groups == 0 || count == 0) return;
  if (aligned && plan.packs > 0 && groups * count / kVec<scalar_t> < INT32_MAX) {
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
                                x.size(2) * x.size(3),    static_cast<float>(eps)};
    launch(g, x.size(0) * groups, x);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
