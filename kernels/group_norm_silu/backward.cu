// Gradients of GroupNorm and SiLU in one launch. A group is read once: the registers of one block, or of a cluster of
// blocks that exchange their sums, hold it until its gradient is written. Each warp has entries of one channel only; its
// sums are the channel's share of the parameters' gradients, and the last block of a channel's groups joins them, in
// an order that is always the same. Where planes do not split evenly, some warps have less than others or nothing.
// Shapes whose planes do not split into packs take scalar kernels.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// Packs of 16 bytes of each input that a thread holds.
// tune: PACKS = 8 [4, 8]
#ifndef PACKS
#define PACKS 8
#endif
// Warps of a block, before a group is split among the blocks of a cluster; at most 20 where the split ends.
// tune: MOST_WARPS = 10 [5, 10, 20]
#ifndef MOST_WARPS
#define MOST_WARPS 10
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
// tune: RAGGED_FILL = 5 [5, 25, 50]
#ifndef RAGGED_FILL
#define RAGGED_FILL 5
#endif
// tune: RAGGED_GAIN = 125 [100, 125, 150]
#ifndef RAGGED_GAIN
#define RAGGED_GAIN 125
#endif
// tune: ODD_CLUSTERS = 1 [0, 1]
#ifndef ODD_CLUSTERS
#define ODD_CLUSTERS 1
#endif
// Of eight packs of x that a thread holds, those that lie in shared memory: with all of them, 64 registers are enough, and
// three blocks of ten warps are side by side in place of two.
// tune: SHELF = 0 [0, 8]
#ifndef SHELF
#define SHELF 0
#endif
// Packs that a thread works on at a time. Without steps the compiler mixes them all, and nothing is written until the last
// one is done.
// tune: STEP = 1 [1, 8]
#ifndef STEP
#define STEP 1
#endif
// 16-bit numbers: of every two pairs, how many share a reciprocal in the sigmoid. It takes the special function unit as
// long as eight of the other instructions, and sharing costs five of them.
// tune: SHARED = 1 [0, 1, 2]
#ifndef SHARED
#define SHARED 1
#endif
// Scalar kernels: the longest group that one block works on.
#ifndef LONG_GROUP
#define LONG_GROUP 8192
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

// Two sums over the warp, in every lane: each half of it takes one of them on.
__device__ float2 warp_sums(float a, float b) {
  const bool upper = threadIdx.x & 16;
  float own = (upper ? b : a) + __shfl_xor_sync(kAll, upper ? a : b, 16);
#pragma unroll
  for (int step = 8; step > 0; step /= 2) own += __shfl_xor_sync(kAll, own, step);
  const float other = __shfl_xor_sync(kAll, own, 16);
  return upper ? make_float2(other, own) : make_float2(own, other);
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

Plan even_plan(int64_t count, int64_t plane, int64_t groups, int vec, int most_packs) {
  for (int packs = most_packs; packs >= 2; packs /= 2) {
    const int64_t chunk = packs * 32 * vec, chunks = count / chunk;
    if (plane % chunk != 0 || chunks > CLUSTER * kMostWarps) continue;
    if (packs > 2 && plane % (chunk / 2) == 0 && chunks * groups < FEW_WARPS && 2 * chunks <= CLUSTER * kMostWarps)
      continue;  // too few warps to fill the GPU: smaller pieces
    for (int blocks = 1; blocks <= CLUSTER; blocks *= 2) {
      if (chunks % blocks != 0) break;
      const int64_t warps = chunks / blocks;
      if (warps <= (2 * blocks > CLUSTER || chunks % (2 * blocks) != 0 ? kMostWarps : MOST_WARPS))
        return {packs, static_cast<int>(warps), blocks};
    }
  }
  return {0, 0, 0};
}

// Any planes of `row` packs: as few blocks as will do, and the warps of a channel have nearly the same.
Plan ragged_plan(int64_t share, int64_t row, int64_t groups, int most_packs) {
  Plan plan = {0, 0, 0};
  int64_t fill = 0;
  for (int packs = most_packs; packs >= 2; packs /= 2) {
    const int64_t pieces = (row + packs * 32 - 1) / (packs * 32), chunks = share * pieces;
    if (chunks > CLUSTER * kMostWarps) break;
    if (packs > 2 && chunks * groups < FEW_WARPS && 2 * chunks <= CLUSTER * kMostWarps) continue;
    int64_t blocks = std::min<int64_t>((chunks + MOST_WARPS - 1) / MOST_WARPS, CLUSTER);
    while (!ODD_CLUSTERS && (blocks & (blocks - 1)) != 0) ++blocks;
    const int64_t warps = (chunks + blocks - 1) / blocks, filled = 100 * share * row / (blocks * warps * packs * 32);
    if (filled < RAGGED_FILL || 100 * filled < RAGGED_GAIN * fill) continue;
    const int64_t length = ((row + pieces - 1) / pieces + 31) / 32 * 32;
    plan = {packs, static_cast<int>(warps), static_cast<int>(blocks), static_cast<int>(length), true};
    fill = filled;
  }
  return plan;
}

Plan plan_for(int64_t share, int64_t plane, int64_t groups, int vec) {
  const Plan plan = even_plan(share * plane, plane, groups, vec, PACKS);
  return plan.packs == 0 && plane % vec == 0 ? ragged_plan(share, plane / vec, groups, PACKS) : plan;
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

template <typename scalar_t>
struct Groups {
  const scalar_t *grad_out, *x, *weight, *bias;
  const float *mean, *rstd;
  scalar_t *grad_x, *grad_weight, *grad_bias;
  float2* partial;  // of each group of each image: `pieces` of each channel
  int batch, groups, share, pieces;
  int length;  // packs of a piece
  int64_t plane;
  float per_count, per_piece, per_groups;  // one over the entries of a group, the pieces, the groups
  __device__ int64_t count() const { return share * plane; }
};

// How many groups have their sums in memory, of those of one remainder each. The last one's increment wraps to zero, so
// that they are zero whenever no kernel runs.
constexpr int kCounters = 1024;
__device__ unsigned arrived[kCounters];

// SiLU's derivative at y, whose sigmoid is `open`: open + open * y * (1 - open).
__device__ float slope(float y, float open) { return fmaf(fmaf(-y, open, y), open, open); }

// The gradient that reaches the normalized input scaled and shifted, through SiLU's derivative.
__device__ float inner_of(float grad, float y) { return grad * slope(y, sigmoid(y)); }

// The same for two, who share a reciprocal, as precisely as 16-bit numbers need it: e^-y is cut off at 2^60, so that the
// product stays finite.
__device__ void inner_of_two(float& first, float& second, float y, float z) {
  float a, b, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(a) : "f"(fminf(-1.44269504f * y, 60.0f)));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(fminf(-1.44269504f * z, 60.0f)));
  a += 1.0f, b += 1.0f;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(a * b));
  const float open = b * inverse, opened = a * inverse;
  first *= slope(y, open), second *= slope(z, opened);
}

// How many groups share the counter of one (`own` of its image); what the last of them finds in it is one less.
template <typename scalar_t>
__device__ unsigned sharing(const Groups<scalar_t>& g, int own) {
  return static_cast<unsigned>((g.groups - own % kCounters + kCounters - 1) / kCounters) * g.batch;
}

// Orders what came before it and what comes after it, for the whole GPU.
__device__ bool fenced() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  return true;
}

// One thread says that its group's sums are in memory; after a barrier, so that those of all warps are.
template <typename scalar_t>
__device__ bool arrive_last(const Groups<scalar_t>& g, int own) {
  const unsigned most = sharing(g, own) - 1;
  return fenced() && atomicInc(&arrived[own % kCounters], most) == most;
}

// The parameters' gradients of all groups that share the counter of the image's `group`: one warp a channel, over images and
// pieces.
template <typename scalar_t>
__device__ void join_parameters(const Groups<scalar_t>& g, int group) {
  const int lane = threadIdx.x % 32, each = g.batch * g.pieces;
  for (int own = group % kCounters; own < g.groups; own += kCounters)
    for (int channel = threadIdx.x / 32; channel < g.share; channel += blockDim.x / 32) {
      float shifts = 0.0f, gains = 0.0f;
#pragma unroll 2
      for (int i = lane; i < each; i += 32) {
        const int image = channel_of(i, g.per_piece), piece = i - image * g.pieces;
        const int64_t of = static_cast<int64_t>(image) * g.groups + own;
        const float2 sums = __ldcg(g.partial + (of * g.share + channel) * g.pieces + piece);
        shifts += sums.x, gains += sums.y;
      }
      const float2 all = warp_sums(shifts, gains);
      if (lane == 0) {
        g.grad_bias[own * g.share + channel] = static_cast<scalar_t>(all.x);
        g.grad_weight[own * g.share + channel] = static_cast<scalar_t>(all.y);
      }
    }
}

// Packs of x in shared memory, and registers: enough to hold the others. More would let the compiler interleave more, at the
// price of blocks side by side.
template <int Packs>
constexpr int kShelf = Packs == 8 ? SHELF : 0;
template <int Packs>
constexpr int kRegisters = 2 * Packs - kShelf<Packs> > 8 ? 96 : Packs > 2 ? 64 : 56;
constexpr int kMostChunks = CLUSTER * kMostWarps;
static_assert(CLUSTER <= 16);

__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// The group in registers, x perhaps in shared memory. Its warps tell their sums to all blocks of the cluster, and what they
// have of the parameters' gradients to the first.
template <typename scalar_t, int Packs, bool Clustered, bool Ragged>
__global__ void __maxnreg__(kRegisters<Packs>) group_held(Groups<scalar_t> g, int blocks) {
  constexpr int Vec = kVec<scalar_t>, Shelf = kShelf<Packs>, Held = Packs - Shelf;
  extern __shared__ uint4 shelf[];
  __shared__ uint64_t told[kMostChunks], shares[kMostChunks];
  __shared__ float2 joined;
  __shared__ bool last;
  // The same for all lanes, which the compiler could not know otherwise.
  const int warp = __shfl_sync(kAll, threadIdx.x / 32, 0);
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int rank = Clustered ? blockIdx.y : 0, chunk = rank * warps + warp, group = blockIdx.x;
  int within = channel_of(chunk, g.per_piece);  // the channel's place in the group
  const int row = static_cast<int>(g.plane / Vec);
  // Packs before the lane's first one, and from it to the piece's end. Those of all groups are fewer than 2^31.
  int start = group * (g.share * row) + chunk * (Packs * 32) + lane, rest = Packs * 32;
  if constexpr (Ragged) {
    const bool present = within < g.share;
    within = min(within, g.share - 1);
    const int first = (chunk - within * g.pieces) * g.length;
    rest = present ? min(g.length, row - first) - lane : 0;
    start = (group * g.share + within) * row + first + lane;
  }
  const auto has = [&](int k) { return !Ragged || k * 32 < rest; };
  // The same, but known only at run time where a step begins.
  const auto next = [&](int k) { return Ragged ? has(k) : k % STEP != 0 || k == 0 || k * 32 < g.length; };
  const uint4* from = reinterpret_cast<const uint4*>(g.x) + start;
  const uint4* grad_from = reinterpret_cast<const uint4*>(g.grad_out) + start;
  uint4 held[Held > 0 ? Held : 1] = {}, grads[Packs] = {};
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
    grads[k] = __ldcs(grad_from + k * 32);
  }
  const int own = group - channel_of(group, g.per_groups) * g.groups, channel = own * g.share + within;
  const scalar_t weight = g.weight[channel], bias = g.bias[channel];
  const float mean = g.mean[group], rstd = g.rstd[group];
  if constexpr (Clustered) {
    // Before anything is told to a block, its slots must hold nothing.
    if (warp == 0)
#pragma unroll 1
      for (int i = lane; i < warps * blocks; i += 32) told[i] = shares[i] = kNothing;
    cluster_arrive(warp == 0);
  }
  if constexpr (Shelf > 0) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();  // or the compiler has loads wait until others have been used

  // The inner gradient takes the place of grad_out, in the element type, as torch has it between its two kernels; what
  // is summed is not rounded.
  const float gain = static_cast<float>(weight), shift = static_cast<float>(bias), scale = gain * rstd;
  float v[Vec], inner[Vec], shifts = 0.0f, gains = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (!next(k)) continue;
    unpack<scalar_t>(pack(k), v);
    unpack<scalar_t>(grads[k], inner);
#pragma unroll
    for (int j = 0; j < Vec; j += 2) {
      const float a = v[j] - mean, b = v[j + 1] - mean;
      if (sizeof(scalar_t) == 2 && j / 2 % 2 < SHARED) {
        inner_of_two(inner[j], inner[j + 1], a * scale + shift, b * scale + shift);
      } else {
        inner[j] = inner_of(inner[j], a * scale + shift);
        inner[j + 1] = inner_of(inner[j + 1], b * scale + shift);
      }
      shifts += inner[j], gains += inner[j] * a;
      shifts += inner[j + 1], gains += inner[j + 1] * b;
    }
    grads[k] = packed<scalar_t>(inner);
  }
  const float2 sums = warp_sums(shifts, gains * rstd);
  const float2 weighted = make_float2(gain * sums.x, gain * sums.y);
  const auto joined_sums = [&](const auto& slot) {
    float sum = 0.0f, turned = 0.0f;
#pragma unroll 1
    for (int i = lane; i < warps * blocks; i += 32) {
      const float2 of = slot(i);
      sum += of.x, turned += of.y;
    }
    return warp_sums(sum, turned);
  };
  float2 all;
  if constexpr (Clustered) {
    cluster_wait();
    const bool share = lane == 16 && chunk < g.share * g.pieces;
    if (lane < blocks || share) tell(share ? &shares[chunk] : &told[chunk], share ? 0 : lane, share ? sums : weighted);
    if (warp == 0) {  // only one warp looks again and again
      all = joined_sums([&](int i) { return heard(&told[i]); });
      if (lane == 0) joined = all;
    }
    __syncthreads();
    all = joined;
  } else {
    float2 *plain_told = reinterpret_cast<float2*>(told), *plain_shares = reinterpret_cast<float2*>(shares);
    if (lane == 0) plain_told[chunk] = weighted, plain_shares[chunk] = sums;
    __syncthreads();
    all = joined_sums([&](int i) { return plain_told[i]; });
  }
  // The last warp, which may have less to write than others, puts the channels' shares into memory.
  bool ends = false;  // known only when the counter answers, so asked for now and looked at in the end
  if (rank == 0 && warp == warps - 1) {
#pragma unroll 1
    for (int i = lane; i < g.share * g.pieces; i += 32)
      g.partial[group * (g.share * g.pieces) + i] = Clustered ? heard(&shares[i]) : reinterpret_cast<float2*>(shares)[i];
    __syncwarp();
    if (lane == 0) ends = arrive_last(g, own);
  }
  // (inner * gain - sum / count - hat * turned / count) * rstd
  const float back = -all.y * g.per_count * rstd * rstd, level = -all.x * g.per_count * rstd, offset = level - mean * back;
  keep_packed(held);
  keep_packed(grads);
  uint4* to = reinterpret_cast<uint4*>(g.grad_x) + start;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    if (!next(k)) continue;
    unpack<scalar_t>(pack(k), v);
    unpack<scalar_t>(grads[k], inner);
#pragma unroll
    for (int j = 0; j < Vec; ++j)  // a 16-bit entry is rounded more coarsely than its product
      v[j] = inner[j] * scale + (sizeof(scalar_t) == 2 ? v[j] * back + offset : (v[j] - mean) * back + level);
    __stcs(to + k * 32, packed<scalar_t>(v));
  }
  if (rank != 0) return;
  if (warp == warps - 1 && lane == 0) last = ends && fenced();
  __syncthreads();
  if (last) join_parameters(g, own);
}

// The sums of a piece of a plane, by one warp: of the inner gradient, and of it times the normalized input.
template <typename scalar_t>
__device__ float2 piece_sums(const Groups<scalar_t>& g, int64_t start, int64_t begin, int64_t end, int step, int first,
                             float mean, float rstd, float gain, float shift) {
  float shifts = 0.0f, gains = 0.0f;
#pragma unroll 4
  for (int64_t i = begin + first; i < end; i += step) {
    const float hat = (static_cast<float>(g.x[start + i]) - mean) * rstd;
    const float inner = inner_of(static_cast<float>(g.grad_out[start + i]), hat * gain + shift);
    shifts += inner;
    gains += inner * hat;
  }
  return make_float2(shifts, gains);
}

template <typename scalar_t>
__device__ void write_one(const Groups<scalar_t>& g, int64_t place, float mean, float rstd, float gain, float shift,
                          float sum, float turned) {
  const float hat = (static_cast<float>(g.x[place]) - mean) * rstd;
  const float inner = inner_of(static_cast<float>(g.grad_out[place]), hat * gain + shift);
  g.grad_x[place] = static_cast<scalar_t>((inner * gain - sum - hat * turned) * rstd);
}

// Any plane, one block a group, which it reads twice (the second time from a cache). Warps share out pieces of planes.
template <typename scalar_t>
__global__ void __launch_bounds__(512) group_scalar(Groups<scalar_t> g) {
  __shared__ float sums[32], turns[32];
  __shared__ bool last;
  const int group = blockIdx.x, lane = threadIdx.x % 32, channel0 = group % g.groups * g.share;
  const int count = static_cast<int>(g.count());
  const int64_t start = group * g.count(), length = (g.plane + g.pieces - 1) / g.pieces;
  const float mean = g.mean[group], rstd = g.rstd[group];
  float sum = 0.0f, turned = 0.0f;
  for (int piece = threadIdx.x / 32; piece < g.share * g.pieces; piece += blockDim.x / 32) {
    const int channel = piece / g.pieces;
    const float gain = static_cast<float>(g.weight[channel0 + channel]);
    const int64_t begin = piece % g.pieces * length;
    float2 of = piece_sums(g, start + channel * g.plane, begin, min(begin + length, g.plane), 32, lane, mean, rstd, gain,
                           static_cast<float>(g.bias[channel0 + channel]));
    of = make_float2(warp_sum(of.x), warp_sum(of.y));
    if (lane == 0) g.partial[static_cast<int64_t>(group) * g.share * g.pieces + piece] = of;
    sum += gain * of.x, turned += gain * of.y;
  }
  if (lane == 0) sums[threadIdx.x / 32] = sum, turns[threadIdx.x / 32] = turned;
  __syncthreads();
  bool ends = false;  // known only when the counter answers, so asked for now and looked at in the end
  if (threadIdx.x == 0) ends = arrive_last(g, group % g.groups);
  const bool mine = lane < blockDim.x / 32;
  sum = warp_sum(mine ? sums[lane] : 0.0f) / static_cast<float>(count);
  turned = warp_sum(mine ? turns[lane] : 0.0f) / static_cast<float>(count);
  const float per_plane = 1.0f / static_cast<float>(g.plane);
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int channel = channel0 + channel_of(i, per_plane);
    write_one(g, start + i, mean, rstd, static_cast<float>(g.weight[channel]), static_cast<float>(g.bias[channel]), sum,
              turned);
  }
  if (threadIdx.x == 0) last = ends && fenced();
  __syncthreads();
  if (last) join_parameters(g, group % g.groups);
}

// A long group: first one block a plane for its sums.
constexpr int kPlaneThreads = 256;

template <typename scalar_t>
__global__ void __launch_bounds__(kPlaneThreads) plane_sums(Groups<scalar_t> g) {
  __shared__ float first[32], second[32];
  const int64_t at = blockIdx.x;
  const int group = static_cast<int>(at / g.share), channel = static_cast<int>(at % (g.groups * g.share));
  const float2 of =
      piece_sums(g, at * g.plane, 0, g.plane, kPlaneThreads, threadIdx.x, g.mean[group], g.rstd[group],
                 static_cast<float>(g.weight[channel]), static_cast<float>(g.bias[channel]));
  const float shifts = block_sum(of.x, first), gains = block_sum(of.y, second);
  if (threadIdx.x == 0) g.partial[at] = make_float2(shifts, gains);
}

// Then one block a plane for its gradient, from the sums of its group's planes; image 0 joins those of its channel too.
template <typename scalar_t>
__global__ void __launch_bounds__(kPlaneThreads) plane_gradient(Groups<scalar_t> g) {
  __shared__ float first[32], second[32];
  const int64_t at = blockIdx.x;
  const int channels = g.groups * g.share, group = static_cast<int>(at / g.share);
  const int channel = static_cast<int>(at % channels);
  float sum = 0.0f, turned = 0.0f;
  for (int i = threadIdx.x; i < g.share; i += kPlaneThreads) {
    const float gain = static_cast<float>(g.weight[group % g.groups * g.share + i]);
    const float2 of = g.partial[static_cast<int64_t>(group) * g.share + i];
    sum += gain * of.x, turned += gain * of.y;
  }
  const float count = static_cast<float>(g.count());
  sum = block_sum(sum, first) / count;
  turned = block_sum(turned, second) / count;
  const float mean = g.mean[group], rstd = g.rstd[group];
  const float gain = static_cast<float>(g.weight[channel]), shift = static_cast<float>(g.bias[channel]);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < g.plane; i += kPlaneThreads)
    write_one(g, at * g.plane + i, mean, rstd, gain, shift, sum, turned);
  if (at >= channels || threadIdx.x != 0) return;
  float shifts = 0.0f, gains = 0.0f;
  for (int image = 0; image < g.batch; ++image) {
    const float2 of = g.partial[static_cast<int64_t>(image) * channels + channel];
    shifts += of.x, gains += of.y;
  }
  g.grad_bias[channel] = static_cast<scalar_t>(shifts);
  g.grad_weight[channel] = static_cast<scalar_t>(gains);
}

template <typename scalar_t, int Packs>
void launch_held(const Groups<scalar_t>& g, const Plan& plan, int64_t groups) {
  const auto kernel = plan.blocks > 1 ? plan.ragged ? group_held<scalar_t, Packs, true, true>
                                                    : group_held<scalar_t, Packs, true, false>
                      : plan.ragged   ? group_held<scalar_t, Packs, false, true>
                                      : group_held<scalar_t, Packs, false, false>;
  launch_plan(kernel, plan, groups, kShelf<Packs> * plan.warps * 512, g, plan.blocks);
}

template <typename scalar_t>
void launch(Groups<scalar_t> g, torch::Tensor mean) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const int64_t count = g.share * g.plane, groups = static_cast<int64_t>(g.batch) * g.groups;
  if (groups == 0 || count == 0) return;
  const Plan plan = plan_for(g.share, g.plane, groups, kVec<scalar_t>);
  const bool held = plan.packs > 0 && groups * count / kVec<scalar_t> < INT32_MAX && groups < 2000000 && aligned(g.x) &&
                    aligned(g.grad_out) && aligned(g.grad_x);
  const int warps = static_cast<int>(std::clamp<int64_t>((count / 8 + 31) / 32, 2, 16));
  g.length = plan.length;
  if (held)
    g.pieces = static_cast<int>((g.plane / kVec<scalar_t> + plan.length - 1) / plan.length);
  else if (count <= LONG_GROUP)
    g.pieces = std::max(warps / g.share, 1);
  else
    g.pieces = 1;
  g.per_count = static_cast<float>(1.0 / static_cast<double>(count));
  g.per_piece = 1.0f / static_cast<float>(g.pieces), g.per_groups = 1.0f / static_cast<float>(g.groups);
  auto partial = torch::empty({groups * g.share * g.pieces, 2}, mean.options());
  g.partial = reinterpret_cast<float2*>(partial.template data_ptr<float>());
  if (held) {
    const auto run = plan.packs == 8   ? launch_held<scalar_t, 8>
                     : plan.packs == 4 ? launch_held<scalar_t, 4>
                                       : launch_held<scalar_t, 2>;
    return run(g, plan, groups);
  }
  if (count <= LONG_GROUP) {
    group_scalar<scalar_t><<<static_cast<unsigned>(groups), warps * 32, 0, stream>>>(g);
  } else {
    const unsigned planes = static_cast<unsigned>(groups * g.share);
    plane_sums<scalar_t><<<planes, kPlaneThreads, 0, stream>>>(g);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    plane_gradient<scalar_t><<<planes, kPlaneThreads, 0, stream>>>(g);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    int64_t groups, double eps, torch::Tensor mean, torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(bias.is_contiguous() && mean.is_contiguous() && rstd.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  DISPATCH(x, "group_norm_silu_backward", [&] {
    const Groups<scalar_t> g = {grad_out.data_ptr<scalar_t>(),
                                x.data_ptr<scalar_t>(),
                                weight.data_ptr<scalar_t>(),
                                bias.data_ptr<scalar_t>(),
                                mean.data_ptr<float>(),
                                rstd.data_ptr<float>(),
                                grad_x.data_ptr<scalar_t>(),
                                grad_weight.data_ptr<scalar_t>(),
                                grad_bias.data_ptr<scalar_t>(),
                                nullptr,
                                static_cast<int>(x.size(0)),
                                static_cast<int>(groups),
                                static_cast<int>(x.size(1) / groups),
                                0,
                                0,
                                x.size(2) * x.size(3),
                                0.0f,
                                0.0f,
                                0.0f};
    launch(g, mean);
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
