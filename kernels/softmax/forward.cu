// Softmax over the last axis: every element is read once and written once.
//  - tiny:   up to 32 columns, an element a lane; next to no code, as a cold kernel waits for its instructions too.
//  - held:   a team (warp or block) holds a row in registers; one joint reduction of maximum and sum.
//  - ring:   long rows. One resident block an SM; each thread prefetches its own packs of the rows to come with cp.async,
//            so memory stays busy while the present row, held in registers, is reduced and written.
//  - looped: anything else, read twice.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <cfloat>

// Rows of more packs (16 bytes) than this take the ring; at most 8192.
// tune: RING_PACKS = 2048 [2048, 8192]
#ifndef RING_PACKS
#define RING_PACKS 2048
#endif
// Threads of a block whose warps have a row each.
// tune: WARP_BLOCK = 128 [128, 256]
#ifndef WARP_BLOCK
#define WARP_BLOCK 128
#endif
// Threads that share a row of 257 to 512 packs: 128 hold 4 packs each, 64 hold 8.
// tune: MEDIUM_TEAM = 128 [64, 128]
#ifndef MEDIUM_TEAM
#define MEDIUM_TEAM 128
#endif

// Blocks of the ring at most, whatever the GPU has room for.
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 65536
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr float kLog2e = 1.4426950408889634f;
constexpr int kRingThreads = 1024;
constexpr int kRingSlots = 13;  // of 16 bytes a thread: 208 KB

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

template <typename scalar_t>
union Pack {
  uint4 bits;
  scalar_t at[kVec<scalar_t>];
  __device__ Pack() : bits(make_uint4(0, 0, 0, 0)) {}
};

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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

// From each thread's maximum and sum of exponentials below it to the factor that makes its exponentials shares.
// `half` alternates between rows of a looping block, so that one barrier a row is enough.
template <int Team>
__device__ float share_factor(float own, float sum, int half = 0) {
  float largest = own;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  sum *= power_of_two((own - largest) * kLog2e);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if constexpr (Team > 32) {
    constexpr int warps = Team / 32;
    __shared__ float2 partial[2][warps];
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[half][threadIdx.x / 32] = make_float2(largest, sum);
    __syncthreads();
    const float2 part = lane < warps ? partial[half][lane] : make_float2(-FLT_MAX, 0.0f);
    largest = part.x;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      if (step < warps) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    sum = part.y * power_of_two((part.x - largest) * kLog2e);
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      if (step < warps) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if constexpr (warps < 32) {  // lanes beyond the partials have nothing
      largest = __shfl_sync(0xffffffffu, largest, 0);
      sum = __shfl_sync(0xffffffffu, sum, 0);
    }
  }
  return power_of_two((own - largest) * kLog2e) / sum;
}

// Values to exponentials below the thread's own maximum. -inf, also where there is no element, becomes 0.
template <int Packs, int Vec>
__device__ void exponentials(float (&values)[Packs][Vec], float& own, float& sum) {
  own = -FLT_MAX;
  sum = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < Vec; ++j) own = fmaxf(own, values[k][j]);
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < Vec; ++j) sum += values[k][j] = power_of_two((values[k][j] - own) * kLog2e);
}

template <typename scalar_t, int Vec>
__device__ Pack<scalar_t> scaled(const float (&values)[Vec], float factor) {
  Pack<scalar_t> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j) result.at[j] = static_cast<scalar_t>(values[j] * factor);
  return result;
}

constexpr int block_of(int team) { return team == 32 ? WARP_BLOCK : team; }

template <typename scalar_t, int Team, int Packs, bool Aligned>
__global__ void __launch_bounds__(block_of(Team)) held(const scalar_t* x, scalar_t* out, int64_t rows, int cols) {
  constexpr int vec = kVec<scalar_t>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (block_of(Team) / Team) + threadIdx.x / Team;
  if (row >= rows) return;  // whole warps only
  const Window w = window<scalar_t, Aligned>(row, cols);
  const int first = threadIdx.x % Team * vec;
  Pack<scalar_t> packs[Packs];
#pragma unroll
  for (int k = 0; k < Packs; ++k) packs[k] = fetch<Aligned>(x + w.base, first + k * Team * vec, w.head, w.end);
  float values[Packs][vec], own, sum;
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < vec; ++j) {
      const int at = first + k * Team * vec + (Aligned ? 0 : j);
      values[k][j] = at < w.end && (Aligned || at >= w.head) ? static_cast<float>(packs[k].at[j]) : -INFINITY;
    }
  exponentials(values, own, sum);
  const float factor = share_factor<Team>(own, sum);
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    store<Aligned>(out + w.base, first + k * Team * vec, w.head, w.end, scaled<scalar_t>(values[k], factor));
}

// Pack i of those that a thread reads over all rows of its block. A thread reads only what it copied itself, so no
// barrier guards the slots. Every call makes one group, also where there is nothing to copy.
template <typename scalar_t, int Packs>
__device__ __forceinline__ void copy(uint32_t slot, const scalar_t* x, int row, int rows, int cols, int i) {
  const int at = (threadIdx.x + i % Packs * kRingThreads) * kVec<scalar_t>;
  row += i / Packs * gridDim.x;
  if (row < rows && at < cols)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot),
                 "l"(__cvta_generic_to_global(x + static_cast<int64_t>(row) * cols + at))
                 : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <typename scalar_t, int Packs>
__global__ void __launch_bounds__(kRingThreads, 1) ringed(const scalar_t* x, scalar_t* out, int rows, int cols) {
  constexpr int vec = kVec<scalar_t>;
  extern __shared__ uint4 slots[];
  const uint32_t begin = static_cast<uint32_t>(__cvta_generic_to_shared(slots + threadIdx.x));
  const uint32_t end = begin + kRingSlots * kRingThreads * 16;
  uint32_t slot = begin;
#pragma unroll
  for (int i = 0; i < kRingSlots; ++i)
    copy<scalar_t, Packs>(begin + i * kRingThreads * 16, x, blockIdx.x, rows, cols, i);
  int half = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x, half ^= 1) {
    float values[Packs][vec], own, sum;
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kRingSlots - 1) : "memory");
      Pack<scalar_t> pack;
      const bool present = (threadIdx.x + k * kRingThreads) * vec < cols;
      if (present)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(pack.bits.x), "=r"(pack.bits.y), "=r"(pack.bits.z), "=r"(pack.bits.w)
                     : "r"(slot)
                     : "memory");
      copy<scalar_t, Packs>(slot, x, row, rows, cols, k + kRingSlots);  // into the slot just read
      slot = slot + kRingThreads * 16 == end ? begin : slot + kRingThreads * 16;
#pragma unroll
      for (int j = 0; j < vec; ++j) values[k][j] = present ? static_cast<float>(pack.at[j]) : -INFINITY;
    }
    exponentials(values, own, sum);
    const float factor = share_factor<kRingThreads>(own, sum, half);
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      store<true>(out + static_cast<int64_t>(row) * cols, (threadIdx.x + k * kRingThreads) * vec, 0, cols,
                  scaled<scalar_t>(values[k], factor));
  }
}

// Rows of at most Lanes columns. Lanes without an element take part in the shuffles.
template <typename scalar_t, int Lanes>
__global__ void __launch_bounds__(128) tiny(const scalar_t* x, scalar_t* out, unsigned rows, unsigned cols) {
  const unsigned thread = blockIdx.x * 128 + threadIdx.x, row = thread / Lanes, col = thread % Lanes;
  const unsigned at = row * cols + col;
  const bool present = row < rows && col < cols;
  const float value = present ? static_cast<float>(x[at]) : -INFINITY;
  float largest = value;
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  const float power = power_of_two((value - largest) * kLog2e);
  float sum = power;
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (present) out[at] = static_cast<scalar_t>(__fdividef(power, sum));  // the sum lies between 1 and 32
}

// Any row, by one block, read twice.
template <typename scalar_t>
__global__ void __launch_bounds__(512) looped(const scalar_t* x, scalar_t* out, int64_t cols) {
  const scalar_t* row = x + blockIdx.x * cols;
  float own = -FLT_MAX, sum = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += 512) {
    const float value = static_cast<float>(row[i]), before = own;
    own = fmaxf(own, value);
    if (own > before) sum *= power_of_two((before - own) * kLog2e);
    sum += power_of_two((value - own) * kLog2e);
  }
  const float factor = share_factor<512>(own, sum);
  for (int64_t i = threadIdx.x; i < cols; i += 512)
    out[blockIdx.x * cols + i] =
        static_cast<scalar_t>(power_of_two((static_cast<float>(row[i]) - own) * kLog2e) * factor);
}

template <typename scalar_t>
struct Launch {
  const scalar_t* x;
  scalar_t* out;
  int64_t rows, cols;
  cudaStream_t stream;

  template <int Team, int Packs, bool Aligned>
  void run_held() const {
    constexpr int together = block_of(Team) / Team;
    held<scalar_t, Team, Packs, Aligned><<<static_cast<unsigned>((rows + together - 1) / together), block_of(Team), 0,
                                           stream>>>(x, out, rows, static_cast<int>(cols));
  }

  template <int Packs>
  void run_ring() const {
    constexpr int bytes = kRingSlots * kRingThreads * 16;
    const auto kernel = ringed<scalar_t, Packs>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int64_t room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, MOST_BLOCKS);
    const int64_t blocks = std::min(rows, room);
    kernel<<<static_cast<unsigned>(blocks), kRingThreads, bytes, stream>>>(x, out, static_cast<int>(rows),
                                                                           static_cast<int>(cols));
  }

  void run() const {
    constexpr int vec = kVec<scalar_t>;
    constexpr bool wide = vec == 4;  // 8 packs of 16-bit elements a thread are too many for a block of 1024
    const bool based = reinterpret_cast<uintptr_t>(x) % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
    const bool aligned = cols % vec == 0;
    const int64_t packs = aligned ? cols / vec : (cols + vec - 1) / vec + 1;  // one more where a row begins within one
    if (cols <= 32 && rows < (1 << 26)) {
      const int lanes = cols <= 16 ? 16 : 32;
      const auto kernel = cols <= 16 ? tiny<scalar_t, 16> : tiny<scalar_t, 32>;
      kernel<<<static_cast<unsigned>((rows * lanes + 127) / 128), 128, 0, stream>>>(x, out, static_cast<unsigned>(rows),
                                                                                  static_cast<unsigned>(cols));
    } else if (!based || packs > (wide ? 8192 : 4096))
      looped<<<static_cast<unsigned>(rows), 512, 0, stream>>>(x, out, cols);
    else if (!aligned)
      if (packs <= 32) run_held<32, 1, false>();
      else if (packs <= 256) run_held<32, 8, false>();
      else if (packs <= 1024) run_held<128, 8, false>();
      else if (packs <= 4096) run_held<1024, 4, false>();
      else run_held<1024, wide ? 8 : 4, false>();
    else if (packs > RING_PACKS)
      if (packs <= 4096) run_ring<4>();
      else run_ring<wide ? 8 : 4>();
    else if (packs <= 32) run_held<32, 1, true>();
    else if (packs <= 128) run_held<32, 4, true>();
    else if (packs <= 256) run_held<32, 8, true>();
    else if (packs <= 512) run_held<MEDIUM_TEAM, 512 / MEDIUM_TEAM, true>();
    else if (packs <= 1024) run_held<256, 4, true>();
    else if (packs <= 2048) run_held<512, 4, true>();
    else if (packs <= 4096) run_held<1024, 4, true>();
    else run_held<1024, wide ? 8 : 4, true>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  DISPATCH(x, "softmax", [&] {
    Launch<scalar_t>{x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.numel() / cols, cols,
                     at::cuda::getCurrentCUDAStream()}
        .run();
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
