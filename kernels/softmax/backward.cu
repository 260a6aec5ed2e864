// Gradient of softmax from its output, out * (grad - sum(grad * out)): every element is read once and written once.
//  - tiny:   up to 32 columns, an element a lane; next to no code, as a cold kernel waits for its instructions too.
//  - held:   a team (warp or block) holds both rows in registers.
//  - ring:   long rows. One resident block an SM; each thread prefetches its own packs of the rows to come with cp.async,
//            so memory stays busy while the present row is reduced and written. Of that row, shares lie in registers
//            and gradients stay in their slots: together they are larger than either kind of memory.
//  - looped: anything else, read twice.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>

// Rows of more packs (16 bytes) than this take the ring; at most 8192.
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

constexpr int kRingThreads = 1024;
constexpr int kRingSlots = 14;  // of 16 bytes a thread: 224 KB

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

template <typename scalar_t>
union Pack {
  uint4 bits;
  scalar_t at[kVec<scalar_t>];
  __device__ Pack() : bits(make_uint4(0, 0, 0, 0)) {}
};

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

// The sum over a team, the same in every thread. `half` alternates between rows of a looping block, so that one barrier
// a row is enough.
template <int Team>
__device__ float team_sum(float sum, int half = 0) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if constexpr (Team > 32) {
    constexpr int warps = Team / 32;
    __shared__ float partial[2][warps];
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[half][threadIdx.x / 32] = sum;
    __syncthreads();
    sum = lane < warps ? partial[half][lane] : 0.0f;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  return sum;
}

template <typename scalar_t>
__device__ float dot(const Pack<scalar_t>& a, const Pack<scalar_t>& b) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kVec<scalar_t>; ++j) sum += static_cast<float>(a.at[j]) * static_cast<float>(b.at[j]);
  return sum;
}

// Makes the compiler forget what it knows of a pack: it then holds the pack itself rather than its elements as floats,
// which are twice as large for 16-bit types.
template <typename scalar_t>
__device__ __forceinline__ void keep_packed(Pack<scalar_t>& pack) {
  asm volatile("" : "+r"(pack.bits.x), "+r"(pack.bits.y), "+r"(pack.bits.z), "+r"(pack.bits.w));
}

template <typename scalar_t>
__device__ Pack<scalar_t> finished(const Pack<scalar_t>& grad, const Pack<scalar_t>& share, float sum) {
  Pack<scalar_t> result;
#pragma unroll
  for (int j = 0; j < kVec<scalar_t>; ++j)
    result.at[j] = static_cast<scalar_t>(static_cast<float>(share.at[j]) * (static_cast<float>(grad.at[j]) - sum));
  return result;
}

constexpr int block_of(int team) { return team == 32 ? WARP_BLOCK : team; }

template <typename scalar_t, int Team, int Packs, bool Aligned>
__global__ void __launch_bounds__(block_of(Team))
    held(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, int64_t rows, int cols) {
  constexpr int vec = kVec<scalar_t>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (block_of(Team) / Team) + threadIdx.x / Team;
  if (row >= rows) return;  // whole warps only
  const Window w = window<scalar_t, Aligned>(row, cols);
  const int first = threadIdx.x % Team * vec;
  Pack<scalar_t> grad[Packs], share[Packs];
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    grad[k] = fetch<Aligned>(grad_out + w.base, first + k * Team * vec, w.head, w.end);
    share[k] = fetch<Aligned>(out + w.base, first + k * Team * vec, w.head, w.end);
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) sum += dot(grad[k], share[k]);
  sum = team_sum<Team>(sum);
#pragma unroll
  for (int k = 0; k < Packs; ++k) keep_packed(grad[k]), keep_packed(share[k]);
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    store<Aligned>(grad_x + w.base, first + k * Team * vec, w.head, w.end, finished(grad[k], share[k], sum));
}

// Pack i of those that a thread reads over all rows of its block: of each row its shares, then its gradients. A thread
// reads only what it copied itself, so no barrier guards the slots. Every call makes one group, also an empty one.
template <typename scalar_t, int Packs>
__device__ __forceinline__ void copy(uint32_t slot, const scalar_t* grad_out, const scalar_t* out, int row, int rows,
                                     int cols, int i) {
  const int at = (threadIdx.x + i % Packs * kRingThreads) * kVec<scalar_t>;
  const scalar_t* from = i / Packs % 2 == 0 ? out : grad_out;
  row += i / (2 * Packs) * gridDim.x;
  if (row < rows && at < cols)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot),
                 "l"(__cvta_generic_to_global(from + static_cast<int64_t>(row) * cols + at))
                 : "memory");
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

template <typename scalar_t, int Packs>
__global__ void __launch_bounds__(kRingThreads, 1)
    ringed(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, int rows, int cols) {
  static_assert(Packs < kRingSlots);
  constexpr int vec = kVec<scalar_t>, stride = kRingThreads * 16;
  extern __shared__ uint4 slots[];
  const uint32_t begin = static_cast<uint32_t>(__cvta_generic_to_shared(slots + threadIdx.x));
  const uint32_t end = begin + kRingSlots * stride;
  const auto after = [&](uint32_t slot) { return slot + stride == end ? begin : slot + stride; };
  uint32_t slot = begin;
#pragma unroll
  for (int i = 0; i < kRingSlots; ++i)
    copy<scalar_t, Packs>(begin + i * stride, grad_out, out, blockIdx.x, rows, cols, i);
  int half = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x, half ^= 1) {
    const auto present = [&](int k) { return (threadIdx.x + k * kRingThreads) * vec < cols; };
    Pack<scalar_t> share[Packs];
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kRingSlots - 1) : "memory");
      share[k] = read<scalar_t>(slot, present(k));
      copy<scalar_t, Packs>(slot, grad_out, out, row, rows, cols, k + kRingSlots);  // into the slot just read
      slot = after(slot);
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(kRingSlots - Packs) : "memory");  // all gradients of the row
    float sum = 0.0f;
    uint32_t ahead = slot;
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      sum += dot(read<scalar_t>(ahead, present(k)), share[k]);
      ahead = after(ahead);
    }
    sum = team_sum<kRingThreads>(sum, half);
#pragma unroll
    for (int k = 0; k < Packs; ++k) keep_packed(share[k]);
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      const auto grad = read<scalar_t>(slot, present(k));
      copy<scalar_t, Packs>(slot, grad_out, out, row, rows, cols, Packs + k + kRingSlots);
      slot = after(slot);
      store<true>(grad_x + static_cast<int64_t>(row) * cols, (threadIdx.x + k * kRingThreads) * vec, 0, cols,
                  finished(grad, share[k], sum));
    }
  }
}

// Rows of at most Lanes columns. Lanes without an element take part in the shuffles.
template <typename scalar_t, int Lanes>
__global__ void __launch_bounds__(128)
    tiny(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, unsigned rows, unsigned cols) {
  const unsigned thread = blockIdx.x * 128 + threadIdx.x, row = thread / Lanes, col = thread % Lanes;
  const unsigned at = row * cols + col;
  const bool present = row < rows && col < cols;
  const float grad = present ? static_cast<float>(grad_out[at]) : 0.0f;
  const float share = present ? static_cast<float>(out[at]) : 0.0f;
  float sum = grad * share;
#pragma unroll
  for (int step = Lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (present) grad_x[at] = static_cast<scalar_t>(share * (grad - sum));
}

// Any row, by one block, read twice.
template <typename scalar_t>
__global__ void __launch_bounds__(512)
    looped(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, int64_t cols) {
  const int64_t start = blockIdx.x * cols;
  float sum = 0.0f;
  for (int64_t i = start + threadIdx.x; i < start + cols; i += 512)
    sum += static_cast<float>(grad_out[i]) * static_cast<float>(out[i]);
  sum = team_sum<512>(sum);
  for (int64_t i = start + threadIdx.x; i < start + cols; i += 512)
    grad_x[i] = static_cast<scalar_t>(static_cast<float>(out[i]) * (static_cast<float>(grad_out[i]) - sum));
}

template <typename scalar_t>
struct Launch {
  const scalar_t *grad_out, *out;
  scalar_t* grad_x;
  int64_t rows, cols;
  cudaStream_t stream;

  template <int Team, int Packs, bool Aligned>
  void run_held() const {
    constexpr int together = block_of(Team) / Team;
    held<scalar_t, Team, Packs, Aligned><<<static_cast<unsigned>((rows + together - 1) / together), block_of(Team), 0,
                                           stream>>>(grad_out, out, grad_x, rows, static_cast<int>(cols));
  }

  template <int Packs>
  void run_ring() const {
    constexpr int bytes = kRingSlots * kRingThreads * 16;
    const auto kernel = ringed<scalar_t, Packs>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int64_t room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount, MOST_BLOCKS);
    const int64_t blocks = std::min(rows, room);
    kernel<<<static_cast<unsigned>(blocks), kRingThreads, bytes, stream>>>(grad_out, out, grad_x, static_cast<int>(rows),
                                                                           static_cast<int>(cols));
  }

  void run() const {
    constexpr int vec = kVec<scalar_t>;
    constexpr bool wide = vec == 4;  // 8 packs of 16-bit elements a thread are too many for a block of 1024
    const auto places = reinterpret_cast<uintptr_t>(grad_out) | reinterpret_cast<uintptr_t>(out) |
                        reinterpret_cast<uintptr_t>(grad_x);
    const bool based = places % 16 == 0;
    const bool aligned = cols % vec == 0;
    const int64_t packs = aligned ? cols / vec : (cols + vec - 1) / vec + 1;  // one more where a row begins within one
    if (cols <= 32 && rows < (1 << 26)) {
      const int lanes = cols <= 16 ? 16 : 32;
      const auto kernel = cols <= 16 ? tiny<scalar_t, 16> : tiny<scalar_t, 32>;
      kernel<<<static_cast<unsigned>((rows * lanes + 127) / 128), 128, 0, stream>>>(
          grad_out, out, grad_x, static_cast<unsigned>(rows), static_cast<unsigned>(cols));
    } else if (!based || packs > (wide ? 8192 : 4096))
      looped<<<static_cast<unsigned>(rows), 512, 0, stream>>>(grad_out, out, grad_x, cols);
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

torch::Tensor backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && out.is_contiguous(), "grad_out and out must be contiguous");
  auto grad_x = torch::empty_like(out);
  const int64_t cols = out.size(-1);
  DISPATCH(out, "softmax_backward", [&] {
    Launch<scalar_t>{grad_out.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), grad_x.data_ptr<scalar_t>(),
                     out.numel() / cols,            cols,                     at::cuda::getCurrentCUDAStream()}
        .run();
  });
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
