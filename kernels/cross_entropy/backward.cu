// Gradient of the mean cross-entropy, (exp(logit - lse) - [target]) * grad_out / rows: elementwise but for three numbers
// a row. Each block takes one stretch of one row and asks for all its logits before it works on any.
// A target's share less one loses its digits where the share is near one, the more so as a large lse is itself coarse. There
// it is the sum of the other shares instead: for free where a warp has the whole row, from a second reading of the row by the
// one block that has the target elsewhere.
// Rows that do not begin on 16 bytes are read and written through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>

// tune: BLOCK = 256 [256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Packs of 16 bytes that a thread has in flight.
// tune: UNROLL = 4 [2, 4, 8]
#ifndef UNROLL
#define UNROLL 4
#endif
// A target's share above this is made from the other shares.
#ifndef DOMINANT
#define DOMINANT 0.5f
#endif

namespace {

constexpr float kLog2e = 1.4426950408889634f;
constexpr int kRowPacks = 256;  // packs of a row that a warp does

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct Arguments {
  const float *grad_out, *logits;
  const int64_t* targets;
  const float* lse;
  float* grad_logits;
  int64_t rows;
  int classes;
};

// The sum of all shares of a row but the target's, by a whole block.
__device__ __noinline__ float other_shares(const float* logits, int classes, int target, float total) {
  __shared__ float partial[BLOCK / 32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < classes; i += BLOCK)
    if (i != target) sum += power_of_two((logits[i] - total) * kLog2e);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < BLOCK / 32; ++i) sum += partial[i];
  return sum;
}

// The packs from `first` on of one row, Team threads apart; Whole if they are all of it.
template <int Team, int Unroll, bool Aligned, bool Whole>
__device__ void stretch(const Arguments& a, int64_t row, int first) {
  const int64_t start = row * a.classes;
  const int head = Aligned ? 0 : static_cast<int>(start % 4), end = head + a.classes;
  const float* from = a.logits + start - head;
  float* to = a.grad_logits + start - head;
  float values[Unroll][4];
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    const int at = first + u * Team * 4;
    if (Aligned ? at < end : at >= head && at + 4 <= end) {
      const float4 pack = *reinterpret_cast<const float4*>(from + at);
      values[u][0] = pack.x, values[u][1] = pack.y, values[u][2] = pack.z, values[u][3] = pack.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) values[u][j] = !Aligned && at + j >= head && at + j < end ? from[at + j] : 0.0f;
    }
  }
  const float total = __ldg(a.lse + row), scale = __ldg(a.grad_out) / static_cast<float>(a.rows);
  const int target = static_cast<int>(__ldg(a.targets + row)) + head;
  float others = 0.0f, missing = 0.0f;
  if constexpr (!Whole) {
    const int begin = first - static_cast<int>(threadIdx.x) * 4;  // of the block's stretch
    if (target >= begin && target < begin + Unroll * Team * 4) {
      missing = power_of_two((__ldg(from + target) - total) * kLog2e) - 1.0f;
      if (missing > DOMINANT - 1.0f) missing = -other_shares(from + head, a.classes, target - head, total);  // the same in all threads
    }
  }
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    const int at = first + u * Team * 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[u][j] = power_of_two((values[u][j] - total) * kLog2e);
      if (Whole && at + j != target && at + j < end && (Aligned || at + j >= head)) others += values[u][j];
    }
  }
  if constexpr (Whole) {
#pragma unroll
    for (int step = Team / 2; step > 0; step /= 2) others += __shfl_xor_sync(0xffffffffu, others, step);
    missing = -others;
  }
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    const int at = first + u * Team * 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) values[u][j] = (at + j == target ? missing : values[u][j]) * scale;
    if (Aligned ? at < end : at >= head && at + 4 <= end) {
      __stcs(reinterpret_cast<float4*>(to + at), make_float4(values[u][0], values[u][1], values[u][2], values[u][3]));
    } else if (!Aligned) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (at + j >= head && at + j < end) to[at + j] = values[u][j];
    }
  }
}

template <bool Aligned>
__global__ void __launch_bounds__(BLOCK) by_stretch(Arguments a, unsigned stretches) {
  const unsigned row = blockIdx.x / stretches, part = blockIdx.x - row * stretches;
  stretch<BLOCK, UNROLL, Aligned, false>(a, row, (part * (BLOCK * UNROLL) + threadIdx.x) * 4);
}

template <int Unroll, bool Aligned>
__global__ void __launch_bounds__(BLOCK) by_warp(Arguments a) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (BLOCK / 32) + threadIdx.x / 32;
  if (row < a.rows) stretch<32, Unroll, Aligned, true>(a, row, threadIdx.x % 32 * 4);
}

// At most Lanes classes, one a lane: no more code and no more dependent loads than it takes. Lanes without a class take part
// in the shuffles.
template <int Lanes>
__global__ void __launch_bounds__(128) tiny(Arguments a) {
  const unsigned thread = blockIdx.x * 128 + threadIdx.x, row = thread / Lanes, at = thread % Lanes;
  const bool present = row < a.rows && at < a.classes;
  float share = 0.0f, scale = 0.0f;
  bool chosen = false;
  if (present) {
    const float logit = a.logits[row * a.classes + at], total = a.lse[row];
    chosen = at == static_cast<unsigned>(a.targets[row]);
    scale = __fdividef(*a.grad_out, static_cast<float>(a.rows));
    share = power_of_two((logit - total) * kLog2e);
  }
  float others = chosen ? 0.0f : share;
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2) others += __shfl_xor_sync(0xffffffffu, others, step);
  if (present) a.grad_logits[row * a.classes + at] = (chosen ? -others : share) * scale;
}

// Tensors off 16 bytes: an element a thread.
__global__ void __launch_bounds__(BLOCK) by_element(Arguments a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
  if (i >= a.rows * a.classes) return;
  const int64_t row = i / a.classes, target = row * a.classes + a.targets[row];
  const float total = a.lse[row], scale = *a.grad_out / static_cast<float>(a.rows);
  float share = power_of_two((a.logits[i] - total) * kLog2e);
  if (i == target) {
    share -= 1.0f;
    if (share > DOMINANT - 1.0f) {
      share = 0.0f;
      for (int64_t j = row * a.classes; j < (row + 1) * a.classes; ++j)
        if (j != target) share -= power_of_two((a.logits[j] - total) * kLog2e);
    }
  }
  a.grad_logits[i] = share * scale;
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor logits, torch::Tensor targets, torch::Tensor lse) {
  TORCH_CHECK(logits.is_contiguous() && targets.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  auto grad_logits = torch::empty_like(logits);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const Arguments a = {grad_out.data_ptr<float>(),    logits.data_ptr<float>(), targets.data_ptr<int64_t>(),
                       lse.data_ptr<float>(),         grad_logits.data_ptr<float>(), rows,
                       static_cast<int>(classes)};
  const bool based = (reinterpret_cast<uintptr_t>(a.logits) | reinterpret_cast<uintptr_t>(a.grad_logits)) % 16 == 0;
  const bool aligned = classes % 4 == 0;
  const int64_t packs = aligned ? classes / 4 : (classes + 3) / 4 + 1;  // one more where a row begins within one
  if (classes <= 32 && rows < (1 << 26)) {
    const int lanes = classes <= 16 ? 16 : 32;
    const auto kernel = classes <= 16 ? tiny<16> : tiny<32>;
    kernel<<<static_cast<unsigned>((rows * lanes + 127) / 128), 128, 0, stream>>>(a);
  } else if (!based) {
    by_element<<<static_cast<unsigned>((rows * classes + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(a);
  } else if (packs <= kRowPacks) {
    const auto kernel = aligned ? by_warp<kRowPacks / 32, true> : by_warp<kRowPacks / 32, false>;
    kernel<<<static_cast<unsigned>((rows + BLOCK / 32 - 1) / (BLOCK / 32)), BLOCK, 0, stream>>>(a);
  } else {
    const int64_t stretches = (packs + BLOCK * UNROLL - 1) / (BLOCK * UNROLL);
    TORCH_CHECK(rows * stretches < (int64_t{1} << 31), "too many logits for one grid");
    const auto kernel = aligned ? by_stretch<true> : by_stretch<false>;
    kernel<<<static_cast<unsigned>(rows * stretches), BLOCK, 0, stream>>>(a, static_cast<unsigned>(stretches));
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return grad_logits;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
