// Gradients of GroupNorm and SiLU in one launch. A group is read once: the registers of one block, or of a cluster of
// blocks that exchange their sums, hold it until its gradient is written. Each warp has entries of one channel only; its
// sums are the channel's share of the parameters' gradients, and the last block of a channel's groups joins them, in
// an order that is always the same. Shapes whose planes do not split into packs take scalar kernels.
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

Plan plan_for(int64_t count, int64_t plane, int64_t groups, int vec, int most_packs) {
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

// One block a group, or a cluster of them.
template <typename... Formal, typename... Actual>
void launch_plan(void (*kernel)(Formal...), const Plan& plan, int64_t groups, Actual... arguments) {
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(plan.blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(groups * plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.warps * 32));
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &cluster;
  config.numAttrs = plan.blocks > 1 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <typename scalar_t>
struct Groups {
  const scalar_t *grad_out, *x, *weight, *bias;
  const float *mean, *rstd;
  scalar_t *grad_x, *grad_weight, *grad_bias;
  float2* partial;  // of each group of each image: `pieces` of each channel
  int batch, groups, share, pieces;
  int64_t plane;
  __device__ int64_t count() const { return share * plane; }
};

// How many blocks have told their sums, for groups of one remainder each. The last one's increment wraps to zero, so
// that they are zero whenever no kernel runs.
constexpr int kCounters = 1024;
__device__ unsigned arrived[kCounters];

// The gradient that reaches the normalized input scaled and shifted, through SiLU's derivative.
__device__ float inner_of(float grad, float hat, float gain, float shift) {
  const float y = hat * gain + shift, open = sigmoid(y);
  return grad * (open + y * open * (1.0f - open));
}

// How many blocks share the counter of a group; what the last of them finds in it is one less.
template <typename scalar_t>
__device__ unsigned sharing(const Groups<scalar_t>& g, int group, int blocks) {
  const int slot = group % g.groups % kCounters;
  return static_cast<unsigned>((g.groups - slot + kCounters - 1) / kCounters) * g.batch * blocks;
}

// One thread says that its block's sums are in memory; after a barrier, so that those of all its warps are.
template <typename scalar_t>
__device__ bool arrive_last(const Groups<scalar_t>& g, int group, int blocks) {
  const unsigned most = sharing(g, group, blocks) - 1;
  __threadfence();
  return atomicInc(&arrived[group % g.groups % kCounters], most) == most;
}

// The parameters' gradients of all groups that share the counter of `group`: one warp a channel, over images and pieces.
template <typename scalar_t>
__device__ void join_parameters(const Groups<scalar_t>& g, int group) {
  __threadfence();
  const int lane = threadIdx.x % 32, each = g.batch * g.pieces;
  for (int own = group % g.groups % kCounters; own < g.groups; own += kCounters)
    for (int channel = threadIdx.x / 32; channel < g.share; channel += blockDim.x / 32) {
      float shifts = 0.0f, gains = 0.0f;
      for (int i = lane; i < each; i += 32) {
        const int64_t of = static_cast<int64_t>(i / g.pieces) * g.groups + own;
        const float2 sums = __ldcg(g.partial + (of * g.share + channel) * g.pieces + i % g.pieces);
        shifts += sums.x, gains += sums.y;
      }
      shifts = warp_sum(shifts), gains = warp_sum(gains);
      if (lane == 0) {
        g.grad_bias[own * g.share + channel] = static_cast<scalar_t>(shifts);
        g.grad_weight[own * g.share + channel] = static_cast<scalar_t>(gains);
      }
    }
}

// Enough to hold the packs; more would let the compiler interleave more, at the price of blocks side by side.
template <int Packs>
constexpr int kRegisters = Packs > 4 ? 96 : Packs > 2 ? 64 : 56;

// The group in registers.
template <typename scalar_t, int Packs, bool Clustered>
__global__ void __maxnreg__(kRegisters<Packs>) group_held(Groups<scalar_t> g, int blocks) {
  constexpr int Vec = kVec<scalar_t>;
  __shared__ float sums[32], turns[32];
  __shared__ float2 told[8];
  __shared__ bool last;
  unsigned rank = 0;
  if constexpr (Clustered) {
    rank = cluster_rank();
    cluster_arrive();  // before anything is told to a block, it must have begun
  }
  const int lane = threadIdx.x % 32, chunk = rank * (blockDim.x / 32) + threadIdx.x / 32;
  const int group = blockIdx.x / blocks;
  const int64_t start = group * g.count() + static_cast<int64_t>(chunk) * (Packs * 32 * Vec) + lane * Vec;
  uint4 held[Packs], grads[Packs];
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    held[k] = __ldcs(reinterpret_cast<const uint4*>(g.x + start + k * 32 * Vec));
    grads[k] = __ldcs(reinterpret_cast<const uint4*>(g.grad_out + start + k * 32 * Vec));
  }
  const int channel = group % g.groups * g.share + chunk / g.pieces;
  const float gain = static_cast<float>(g.weight[channel]), shift = static_cast<float>(g.bias[channel]);
  const float mean = g.mean[group], rstd = g.rstd[group];

  // The inner gradient takes the place of grad_out, in the element type, as torch has it between its two kernels; what
  // is summed is not rounded.
  float v[Vec], inner[Vec], shifts = 0.0f, gains = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    unpack<scalar_t>(held[k], v);
    unpack<scalar_t>(grads[k], inner);
#pragma unroll
    for (int j = 0; j < Vec; ++j) {
      const float hat = (v[j] - mean) * rstd;
      inner[j] = inner_of(inner[j], hat, gain, shift);
      shifts += inner[j];
      gains += inner[j] * hat;
    }
    grads[k] = packed<scalar_t>(inner);
  }
  shifts = warp_sum(shifts), gains = warp_sum(gains);
  if (lane == 0) {
    g.partial[static_cast<int64_t>(group) * g.share * g.pieces + chunk] = make_float2(shifts, gains);
    sums[threadIdx.x / 32] = gain * shifts, turns[threadIdx.x / 32] = gain * gains;
  }
  __syncthreads();
  const bool mine = lane < blockDim.x / 32;
  float sum = warp_sum(mine ? sums[lane] : 0.0f), turned = warp_sum(mine ? turns[lane] : 0.0f);
  if constexpr (Clustered) {
    cluster_wait();
    if (threadIdx.x < blocks) tell(&told[rank], threadIdx.x, make_float2(sum, turned));
    cluster_arrive();
    cluster_wait();
    sum = turned = 0.0f;
    for (int i = 0; i < blocks; ++i) sum += told[i].x, turned += told[i].y;
  }
  bool ends = false;  // known only when the counter answers, so asked for now and looked at in the end
  if (threadIdx.x == 0) ends = arrive_last(g, group, blocks);
  // (inner * gain - sum / count - hat * turned / count) * rstd
  const float count = static_cast<float>(g.count()), scale = gain * rstd;
  const float back = -turned / count * rstd * rstd, level = -sum / count * rstd;
  keep_packed(held);
  keep_packed(grads);
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    unpack<scalar_t>(held[k], v);
    unpack<scalar_t>(grads[k], inner);
#pragma unroll
    for (int j = 0; j < Vec; ++j) v[j] = inner[j] * scale + ((v[j] - mean) * back + level);
    __stcs(reinterpret_cast<uint4*>(g.grad_x + start + k * 32 * Vec), packed<scalar_t>(v));
  }
  if (threadIdx.x == 0) last = ends;
  __syncthreads();
  if (last) join_parameters(g, group);
}

// The sums of a piece of a plane, by one warp: of the inner gradient, and of it times the normalized input.
template <typename scalar_t>
__device__ float2 piece_sums(const Groups<scalar_t>& g, int64_t start, int64_t begin, int64_t end, int step, int first,
                             float mean, float rstd, float gain, float shift) {
  float shifts = 0.0f, gains = 0.0f;
#pragma unroll 4
  for (int64_t i = begin + first; i < end; i += step) {
    const float hat = (static_cast<float>(g.x[start + i]) - mean) * rstd;
    const float inner = inner_of(static_cast<float>(g.grad_out[start + i]), hat, gain, shift);
    shifts += inner;
    gains += inner * hat;
  }
  return make_float2(shifts, gains);
}

template <typename scalar_t>
__device__ void write_one(const Groups<scalar_t>& g, int64_t place, float mean, float rstd, float gain, float shift,
                          float sum, float turned) {
  const float hat = (static_cast<float>(g.x[place]) - mean) * rstd;
  const float inner = inner_of(static_cast<float>(g.grad_out[place]), hat, gain, shift);
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
  if (threadIdx.x == 0) ends = arrive_last(g, group, 1);
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
  if (threadIdx.x == 0) last = ends;
  __syncthreads();
  if (last) join_parameters(g, group);
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
  launch_plan(plan.blocks > 1 ? group_held<scalar_t, Packs, true> : group_held<scalar_t, Packs, false>, plan, groups, g,
              plan.blocks);
}

template <typename scalar_t>
void launch(Groups<scalar_t> g, torch::Tensor mean) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const int64_t count = g.share * g.plane, groups = static_cast<int64_t>(g.batch) * g.groups;
  const Plan plan = plan_for(count, g.plane, groups, kVec<scalar_t>, PACKS);
  if (groups == 0 || count == 0) return;
  const bool held = plan.packs > 0 && aligned(g.x) && aligned(g.grad_out) && aligned(g.grad_x);
  const int warps = static_cast<int>(std::clamp<int64_t>((count / 8 + 31) / 32, 2, 16));
  if (held)
    g.pieces = static_cast<int>(g.plane / (plan.packs * 32 * kVec<scalar_t>));
  else if (count <= LONG_GROUP)
    g.pieces = std::max(warps / g.share, 1);
  else
    g.pieces = 1;
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
                                x.size(2) * x.size(3)};
    launch(g, mean);
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
