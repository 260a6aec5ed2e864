// Gradient of softmax from its output, out * (grad - sum(grad * out)): every element is read once and written once.
//  - tiny:   up to 32 columns, an element a lane; next to no code, as a cold kernel waits for its instructions too.
//  - held:   a team (warp or block) holds both rows in registers.
//  - joined: long rows. The same by the blocks of a cluster, which tell each other their sums: several of them on an SM
//            are at different places of their work, so memory stays busy.
//  - looped: anything else, read twice.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>

// Rows of more packs (16 bytes) than this are shared by the blocks of a cluster.
#ifndef ALONE_PACKS
#define ALONE_PACKS 2048
#endif
// Threads of such a block.
// tune: JOIN_THREADS = 256 [128, 256]
#ifndef JOIN_THREADS
#define JOIN_THREADS 256
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

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kJoinThreads = JOIN_THREADS;
constexpr int kJoinResident = 512;   // threads of an SM: two blocks or four, each with 64 KB or 32 KB on its way
constexpr unsigned kMostJoined = 8;  // blocks of a cluster: what every GPU with clusters has

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

template <typename scalar_t>
constexpr int kJoinPacks = std::is_same_v<scalar_t, at::Half> ? 4 : 8;  // of each of both rows that a thread holds

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

// The sum over a team, the same in every thread.
template <int Team>
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

// Two 16-bit numbers of a word, and back, rounded to nearest. The second time by other instructions: else ptxas keeps the
// floats of the first time, which need twice as many registers.
template <typename scalar_t, bool Again>
__device__ __forceinline__ float2 two_of(uint32_t word) {
  if constexpr (std::is_same_v<scalar_t, at::Half>) return __half22float2(*reinterpret_cast<const __half2*>(&word));
  if constexpr (Again)
    return make_float2(__uint_as_float(__byte_perm(word, 0, 0x1044)), __uint_as_float(__byte_perm(word, 0, 0x3244)));
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename scalar_t>
__device__ __forceinline__ uint32_t word_of(float low, float high) {
  if constexpr (std::is_same_v<scalar_t, at::Half>) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}

template <typename scalar_t>
__device__ __forceinline__ float dot_of(uint32_t a, uint32_t b, float sum) {
  if constexpr (sizeof(scalar_t) == 4) return fmaf(__uint_as_float(a), __uint_as_float(b), sum);
  const float2 x = two_of<scalar_t, false>(a), y = two_of<scalar_t, false>(b);
  return fmaf(x.y, y.y, fmaf(x.x, y.x, sum));
}

template <typename scalar_t>
__device__ __forceinline__ float dot(const Pack<scalar_t>& a, const Pack<scalar_t>& b, float sum = 0.0f) {
  sum = dot_of<scalar_t>(a.bits.x, b.bits.x, sum);
  sum = dot_of<scalar_t>(a.bits.y, b.bits.y, sum);
  sum = dot_of<scalar_t>(a.bits.z, b.bits.z, sum);
  return dot_of<scalar_t>(a.bits.w, b.bits.w, sum);
}

// Makes the compiler forget what it knows of a pack: it then holds the pack itself rather than its elements as floats,
// which are twice as large for 16-bit types.
template <typename scalar_t>
__device__ __forceinline__ void keep_packed(Pack<scalar_t>& pack) {
  asm volatile("" : "+r"(pack.bits.x), "+r"(pack.bits.y), "+r"(pack.bits.z), "+r"(pack.bits.w));
}

template <typename scalar_t>
__device__ __forceinline__ uint32_t finished_of(uint32_t grad, uint32_t share, float sum) {
  if constexpr (sizeof(scalar_t) == 4)
    return __float_as_uint(__uint_as_float(share) * (__uint_as_float(grad) - sum));
  else {
    const float2 g = two_of<scalar_t, true>(grad), s = two_of<scalar_t, true>(share);
    return word_of<scalar_t>(s.x * (g.x - sum), s.y * (g.y - sum));
  }
}

template <typename scalar_t>
__device__ __forceinline__ Pack<scalar_t> finished(const Pack<scalar_t>& grad, const Pack<scalar_t>& share, float sum) {
  Pack<scalar_t> result;
  result.bits.x = finished_of<scalar_t>(grad.bits.x, share.bits.x, sum);
  result.bits.y = finished_of<scalar_t>(grad.bits.y, share.bits.y, sum);
  result.bits.z = finished_of<scalar_t>(grad.bits.z, share.bits.z, sum);
  result.bits.w = finished_of<scalar_t>(grad.bits.w, share.bits.w, sum);
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
  for (int k = 0; k < Packs; ++k) sum = dot(grad[k], share[k], sum);
  sum = team_sum<Team>(sum);
#pragma unroll
  for (int k = 0; k < Packs; ++k) keep_packed(grad[k]), keep_packed(share[k]);
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    store<Aligned>(grad_x + w.base, first + k * Team * vec, w.head, w.end, finished(grad[k], share[k], sum));
}

// Blocks of a cluster share a row. Each tells every one of them its sum.
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__device__ void tell(float* sum, unsigned block, float value) {
  const uint32_t own = static_cast<uint32_t>(__cvta_generic_to_shared(sum));
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}

template <typename scalar_t, int Packs, bool Aligned>
__global__ void __launch_bounds__(kJoinThreads, kJoinResident / kJoinThreads)
    joined(const scalar_t* grad_out, const scalar_t* out, scalar_t* grad_x, int cols, unsigned blocks) {
  constexpr int vec = kVec<scalar_t>;
  __shared__ float sums[kMostJoined];
  cluster_arrive();  // before anything is told to a block, it must have begun
  const unsigned rank = blockIdx.x % blocks;
  const Window w = window<scalar_t, Aligned>(blockIdx.x / blocks, cols);
  const int first = (static_cast<int>(rank) * kJoinThreads * Packs + threadIdx.x) * vec;
  Pack<scalar_t> grad[Packs], share[Packs];
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    grad[k] = fetch<Aligned>(grad_out + w.base, first + k * kJoinThreads * vec, w.head, w.end);
    share[k] = fetch<Aligned>(out + w.base, first + k * kJoinThreads * vec, w.head, w.end);
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    sum = dot(grad[k], share[k], sum);
    keep_packed(grad[k]), keep_packed(share[k]);
  }
  sum = team_sum<kJoinThreads>(sum);
  cluster_wait();
  if (threadIdx.x < blocks) tell(sums + rank, threadIdx.x, sum);
  cluster_arrive();
  cluster_wait();
  sum = 0.0f;
  for (unsigned i = 0; i < blocks; ++i) sum += sums[i];
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    store<Aligned>(grad_x + w.base, first + k * kJoinThreads * vec, w.head, w.end, finished(grad[k], share[k], sum));
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

  template <bool Aligned>
  void run_joined(int64_t packs) const {
    constexpr int held_packs = kJoinPacks<scalar_t>, share = kJoinThreads * held_packs;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    const unsigned blocks = static_cast<unsigned>((packs + share - 1) / share);
    cluster.val.clusterDim.x = blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(rows) * blocks);
    config.blockDim = dim3(kJoinThreads);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, joined<scalar_t, held_packs, Aligned>, grad_out, out, grad_x,
                                      static_cast<int>(cols), blocks));
  }

  void run() const {
    constexpr int vec = kVec<scalar_t>;
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
    } else if (!based || packs > kMostJoined * kJoinThreads * kJoinPacks<scalar_t> || rows >= (1 << 27))
      looped<<<static_cast<unsigned>(rows), 512, 0, stream>>>(grad_out, out, grad_x, cols);
    else if (!aligned)
      if (packs <= 32) run_held<32, 1, false>();
      else if (packs <= 256) run_held<32, 8, false>();
      else if (packs <= 1024) run_held<128, 8, false>();
      else run_joined<false>(packs);
    else if (packs > ALONE_PACKS) run_joined<true>(packs);
    else if (packs <= 32) run_held<32, 1, true>();
    else if (packs <= 128) run_held<32, 4, true>();
    else if (packs <= 256) run_held<32, 8, true>();
    else if (packs <= 512) run_held<MEDIUM_TEAM, 512 / MEDIUM_TEAM, true>();
    else if (packs <= 1024) run_held<256, 4, true>();
    else run_held<512, 4, true>();
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
