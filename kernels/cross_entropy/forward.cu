// Mean cross-entropy in one launch. Every logit is read once, with a running maximum and sum in each thread; the block
// that finishes last adds up the losses of all blocks, always in the same order.
//  - one block, a thread a row, for a small batch of few classes;
//  - a warp a row, all of it in registers, up to 256 packs of 16 bytes;
//  - a warp a row up to WARP_PACKS packs, a block a row above.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <cfloat>

// Threads of a block that has a row.
// tune: BLOCK = 256 [256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Packs that a thread of such a block reads before it works on them.
// tune: UNROLL = 4 [4, 8]
#ifndef UNROLL
#define UNROLL 4
#endif
// Threads of a block whose warps have a row each.
// tune: WARP_BLOCK = 256 [128, 256]
#ifndef WARP_BLOCK
#define WARP_BLOCK 256
#endif
#ifndef WARP_PACKS
#define WARP_PACKS 512
#endif

namespace {

constexpr float kLog2e = 1.4426950408889634f;
constexpr int kFew = 16;          // classes of a row that one thread reads
constexpr int kFewRows = 1024;    // rows of a batch that one block reads

__device__ unsigned finished;  // blocks done; the last one's increment wraps it to zero again

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// How many floats after the beginning of an aligned pack an address lies.
__device__ int past_pack(const float* at) { return static_cast<int>(reinterpret_cast<uintptr_t>(at) / sizeof(float) % 4); }

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

// The sum over the block; whole in the first warp only. A barrier must lie between two calls.
__device__ float block_sum(float sum) {
  __shared__ float partial[32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  return threadIdx.x < 32 ? warp_sum(threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f) : 0.0f;
}

// Maximum and sum of exponentials below it over a warp, from those of its threads.
__device__ float2 warp_join(float own, float sum) {
  float largest = own;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  return make_float2(largest, warp_sum(sum * power_of_two((own - largest) * kLog2e)));
}

// A thread's share of a row: maximum and sum of exponentials below it. -inf adds nothing.
template <int Team, int Unroll, bool Aligned>
__device__ float2 running(const float* base, int head, int end) {
  float own = -FLT_MAX, sum = 0.0f;
  for (int start = threadIdx.x % Team * 4; start < end; start += Team * 4 * Unroll) {
    float values[Unroll][4];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const int at = start + u * Team * 4;
      if (Aligned ? at < end : at >= head && at + 4 <= end) {
        const float4 pack = *reinterpret_cast<const float4*>(base + at);
        values[u][0] = pack.x, values[u][1] = pack.y, values[u][2] = pack.z, values[u][3] = pack.w;
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          values[u][j] = !Aligned && at + j >= head && at + j < end ? base[at + j] : -INFINITY;
      }
    }
    float largest = own;
#pragma unroll
    for (int u = 0; u < Unroll; ++u)
#pragma unroll
      for (int j = 0; j < 4; ++j) largest = fmaxf(largest, values[u][j]);
    sum *= power_of_two((own - largest) * kLog2e);
    own = largest;
#pragma unroll
    for (int u = 0; u < Unroll; ++u)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum += power_of_two((values[u][j] - own) * kLog2e);
  }
  return make_float2(own, sum);
}

// Adds the block's loss to the others'; the last block makes the mean.
__device__ void finish(float loss, float* losses, float* out, int64_t rows) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = loss;
    unsigned before;  // release and acquire in one: cheaper than two fences
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(&finished)), "r"(gridDim.x - 1)
                 : "memory");
    last = before == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += __ldcg(losses + i);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum / static_cast<float>(rows);
}

// The maximum cancels against the target's logit before the logarithm joins: no digits are lost to a large offset.
__device__ float row_loss(float2 joined, float target) { return logf(joined.y) + (joined.x - target); }

template <int Unroll, bool Aligned>
__global__ void __launch_bounds__(WARP_BLOCK)
    warp_rows(const float* logits, const int64_t* targets, float* losses, float* out, int64_t rows, int classes) {
  __shared__ float partial[WARP_BLOCK / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (WARP_BLOCK / 32) + warp;
  float loss = 0.0f;
  if (row < rows) {
    const int64_t start = row * classes;
    const int head = Aligned ? 0 : past_pack(logits + start);
    const int64_t chosen = targets[row];
    const float2 part = running<32, Unroll, Aligned>(logits + start - head, head, head + classes);
    const float target = logits[start + chosen];
    loss = row_loss(warp_join(part.x, part.y), target);
  }
  if (lane == 0) partial[warp] = loss;
  __syncthreads();
  loss = 0.0f;
  if (threadIdx.x == 0)
    for (int i = 0; i < WARP_BLOCK / 32; ++i) loss += partial[i];
  finish(loss, losses, out, rows);
}

// Aligned rows of at most 256 packs, straight on: everything is asked for before anything is waited for.
__global__ void __launch_bounds__(WARP_BLOCK)
    held_rows(const float* logits, const int64_t* targets, float* losses, float* out, int64_t rows, int classes) {
  __shared__ float partial[WARP_BLOCK / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (WARP_BLOCK / 32) + warp;
  const int64_t there = min(row, rows - 1);  // no branch around the shuffles
  const float* from = logits + there * classes;
  float4 packs[8];
#pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int at = (u * 32 + lane) * 4;
    packs[u] = at < classes ? *reinterpret_cast<const float4*>(from + at)
                            : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
  }
  const float target = from[targets[there]];  // the index comes along with the row, the logit then from the L1 or L2
  float own = -FLT_MAX, sum = 0.0f;
#pragma unroll
  for (int u = 0; u < 8; ++u)
    own = fmaxf(fmaxf(fmaxf(own, packs[u].x), fmaxf(packs[u].y, packs[u].z)), packs[u].w);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) own = fmaxf(own, __shfl_xor_sync(0xffffffffu, own, step));
#pragma unroll
  for (int u = 0; u < 8; ++u)
    sum += (power_of_two((packs[u].x - own) * kLog2e) + power_of_two((packs[u].y - own) * kLog2e)) +
           (power_of_two((packs[u].z - own) * kLog2e) + power_of_two((packs[u].w - own) * kLog2e));
  sum = warp_sum(sum);
  float loss = row < rows ? row_loss(make_float2(own, sum), target) : 0.0f;
  if (lane == 0) partial[warp] = loss;
  __syncthreads();
  loss = 0.0f;
  if (threadIdx.x == 0)
    for (int i = 0; i < WARP_BLOCK / 32; ++i) loss += partial[i];
  finish(loss, losses, out, rows);
}

template <int Unroll, bool Aligned>
__global__ void __launch_bounds__(BLOCK)
    block_rows(const float* logits, const int64_t* targets, float* losses, float* out, int64_t rows, int classes) {
  __shared__ float2 partial[BLOCK / 32];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * classes;
  const int head = Aligned ? 0 : past_pack(logits + start);
  const float target = threadIdx.x == 0 ? logits[start + targets[blockIdx.x]] : 0.0f;
  float2 part = running<BLOCK, Unroll, Aligned>(logits + start - head, head, head + classes);
  part = warp_join(part.x, part.y);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = part;
  __syncthreads();
  float loss = 0.0f;
  if (threadIdx.x < 32) {
    part = threadIdx.x < BLOCK / 32 ? partial[threadIdx.x] : make_float2(-FLT_MAX, 0.0f);
    loss = row_loss(warp_join(part.x, part.y), target);
  }
  finish(loss, losses, out, rows);
}

// A small batch of few classes by one block, a thread a row; all loads of a row are independent.
__global__ void __launch_bounds__(kFewRows)
    few_classes(const float* logits, const int64_t* targets, float* out, int rows, int classes) {
  float loss = 0.0f;
  if (threadIdx.x < rows) {
    const int target = static_cast<int>(targets[threadIdx.x]);
    float values[kFew], largest = -FLT_MAX, sum = 0.0f, chosen = 0.0f;
#pragma unroll
    for (int j = 0; j < kFew; ++j) values[j] = j < classes ? logits[threadIdx.x * classes + j] : -INFINITY;
#pragma unroll
    for (int j = 0; j < kFew; ++j) largest = fmaxf(largest, values[j]);
#pragma unroll
    for (int j = 0; j < kFew; ++j) {
      sum += power_of_two((values[j] - largest) * kLog2e);
      if (j == target) chosen = values[j];
    }
    loss = row_loss(make_float2(largest, sum), chosen);
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) *out = loss / static_cast<float>(rows);
}

}  // namespace

torch::Tensor forward(torch::Tensor logits, torch::Tensor targets) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous(), "logits and targets must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto out = torch::empty({}, logits.options());
  const auto stream = at::cuda::getCurrentCUDAStream();
  const float* from = logits.data_ptr<float>();
  const int64_t* chosen = targets.data_ptr<int64_t>();
  float* to = out.data_ptr<float>();
  if (classes <= kFew && rows <= kFewRows) {
    const unsigned threads = static_cast<unsigned>((rows + 31) / 32 * 32);
    few_classes<<<1, threads, 0, stream>>>(from, chosen, to, static_cast<int>(rows), static_cast<int>(classes));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
  }
  const bool aligned = classes % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0, by_warp = classes <= 4 * WARP_PACKS;
  const int64_t blocks = by_warp ? (rows + WARP_BLOCK / 32 - 1) / (WARP_BLOCK / 32) : rows;
  auto losses = torch::empty({blocks}, logits.options());
  const auto kernel = by_warp && aligned && classes <= 1024 ? held_rows
                      : by_warp ? (aligned ? warp_rows<8, true> : warp_rows<8, false>)
                              : (aligned ? block_rows<UNROLL, true> : block_rows<UNROLL, false>);
  kernel<<<static_cast<unsigned>(blocks), by_warp ? WARP_BLOCK : BLOCK, 0, stream>>>(
      from, chosen, losses.data_ptr<float>(), to, rows, static_cast<int>(classes));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
