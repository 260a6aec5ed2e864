// RMSNorm over the last axis: a team (warp or block) holds a row in registers, so every element is read once and
// written once. Gains are asked for before the reduction where rows are few and latency is all.
// Rows that do not begin on 16 bytes are read through a window of aligned packs whose ends are masked.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>

// Threads of a block whose warps have a row each.
// tune: WARP_BLOCK = 128 [128, 256]
#ifndef WARP_BLOCK
#define WARP_BLOCK 128
#endif
// Elements that a thread of a block holds of a row (many rows).
// tune: HELD = 32 [16, 32]
#ifndef HELD
#define HELD 32
#endif
// Up to this many rows a row is spread over as many threads as possible: there is no other row to hide behind.
// tune: FEW_ROWS = 1024 [0, 1024]
#ifndef FEW_ROWS
#define FEW_ROWS 1024
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

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

// Gains of the columns from `at` on, or zeros where there are none. They are read again by every row: no streaming.
template <bool Aligned, typename scalar_t>
__device__ Pack<scalar_t> parameters(const scalar_t* from, int at, int head, int end) {
  Pack<scalar_t> pack;
  if (Aligned) {
    if (at < end)  // not .nc, so that it stays where it is: moved up in one heap, these loads cost too many registers
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(pack.bits.x), "=r"(pack.bits.y), "=r"(pack.bits.z), "=r"(pack.bits.w)
                   : "l"(__cvta_generic_to_global(from + at)));
  } else {
#pragma unroll
    for (int j = 0; j < kVec<scalar_t>; ++j)
      if (at + j >= head && at + j < end) pack.at[j] = from[at + j - head];
  }
  return pack;
}

constexpr int block_of(int team) { return team == 32 ? WARP_BLOCK : team; }

// Blocks that shall fit on an SM: the fewer elements a thread holds, the more threads it takes to keep memory busy.
constexpr int resident(int team, int elements, bool aligned) {
  const int threads = !aligned ? 0 : elements <= 16 ? 1536 : elements <= 32 ? 1024 : 768;
  return threads < block_of(team) ? 1 : threads / block_of(team);
}

template <typename scalar_t, int Team, int Packs, bool Aligned>
__global__ void __launch_bounds__(block_of(Team), resident(Team, Packs * kVec<scalar_t>, Aligned))
    held(const scalar_t* x, const scalar_t* weight, scalar_t* out, int64_t rows, int cols, float share, float eps) {
  constexpr int vec = kVec<scalar_t>;
  constexpr bool early = Packs <= 2;  // else they would cost blocks on the SM
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (block_of(Team) / Team) + threadIdx.x / Team;
  if (Team == 32 && row >= rows) return;  // whole warps only
  const Window w = window<scalar_t, Aligned>(row, cols);
  const int first = threadIdx.x % Team * vec;
  Pack<scalar_t> packs[Packs], gains[early ? Packs : 1];
#pragma unroll
  for (int k = 0; k < Packs; ++k) packs[k] = fetch<Aligned>(x + w.base, first + k * Team * vec, w.head, w.end);
  if constexpr (early) {
#pragma unroll
    for (int k = 0; k < Packs; ++k) gains[k] = parameters<Aligned>(weight, first + k * Team * vec, w.head, w.end);
  }
  float square = 0.0f;
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < vec; ++j) square += static_cast<float>(packs[k].at[j]) * static_cast<float>(packs[k].at[j]);
  const float rstd = rsqrtf(team_sum<Team>(square) * share + eps);  // a division would be more code than all else
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    const int at = first + k * Team * vec;
    const Pack<scalar_t> gain = early ? gains[early ? k : 0] : parameters<Aligned>(weight, at, w.head, w.end);
    Pack<scalar_t> result;
#pragma unroll
    for (int j = 0; j < vec; ++j)
      result.at[j] = static_cast<scalar_t>(static_cast<float>(packs[k].at[j]) * rstd * static_cast<float>(gain.at[j]));
    store<Aligned>(out + w.base, at, w.head, w.end, result);
  }
}

// Any row, by one block, read twice.
template <typename scalar_t>
__global__ void __launch_bounds__(1024)
    looped(const scalar_t* x, const scalar_t* weight, scalar_t* out, int64_t cols, float eps) {
  const int64_t start = blockIdx.x * cols;
  float square = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += 1024) {
    const float value = static_cast<float>(x[start + i]);
    square += value * value;
  }
  const float rstd = rsqrtf(team_sum<1024>(square) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x; i < cols; i += 1024)
    out[start + i] = static_cast<scalar_t>(static_cast<float>(x[start + i]) * rstd * static_cast<float>(weight[i]));
}

template <typename scalar_t>
struct Launch {
  const scalar_t *x, *weight;
  scalar_t* out;
  int64_t rows, cols;
  float eps;
  cudaStream_t stream;

  template <int Team, int Packs, bool Aligned>
  void run_held() const {
    constexpr int together = block_of(Team) / Team;
    held<scalar_t, Team, Packs, Aligned><<<static_cast<unsigned>((rows + together - 1) / together), block_of(Team), 0,
                                           stream>>>(x, weight, out, rows, static_cast<int>(cols),
                                                     1.0f / static_cast<float>(cols), eps);
  }

  void run() const {
    constexpr int vec = kVec<scalar_t>, kept = HELD / vec;
    const auto places = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weight) |
                        reinterpret_cast<uintptr_t>(out);
    const bool aligned = cols % vec == 0;
    const int64_t packs = aligned ? cols / vec : (cols + vec - 1) / vec + 1;  // one more where a row begins within one
    if (places % 16 != 0 || packs > 4096)
      looped<<<static_cast<unsigned>(rows), 1024, 0, stream>>>(x, weight, out, cols, eps);
    else if (!aligned)
      if (packs <= 32) run_held<32, 1, false>();
      else if (packs <= 256) run_held<64, 4, false>();
      else if (packs <= 512) run_held<128, 4, false>();
      else if (packs <= 1024) run_held<256, 4, false>();
      else if (packs <= 2048) run_held<512, 4, false>();
      else run_held<1024, 4, false>();
    else if (packs <= 32) run_held<32, 1, true>();
    else if (rows <= FEW_ROWS && packs <= 1024)
      if (packs <= 128) run_held<128, 1, true>();
      else if (packs <= 256) run_held<256, 1, true>();
      else if (packs <= 512) run_held<512, 1, true>();
      else run_held<512, 2, true>();
    else if (packs <= 128) run_held<32, 4, true>();
    else if (packs <= 256) run_held<32, 8, true>();
    else if (packs <= 512) run_held<512 / kept, kept, true>();
    else if (packs <= 1024) run_held<1024 / kept, kept, true>();
    else if (packs <= 2048) run_held<2048 / kept, kept, true>();
    else run_held<1024, 4, true>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "x and weight must be contiguous");
  auto out = torch::empty_like(x);
  const int64_t cols = x.size(-1);
  DISPATCH(x, "rmsnorm", [&] {
    Launch<scalar_t>{x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.numel() / cols,
                     cols,                   static_cast<float>(eps),     at::cuda::getCurrentCUDAStream()}
        .run();
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
