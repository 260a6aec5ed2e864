// Rotary embedding of queries and keys in one launch: a thread reads a pack of angles once and turns several heads by it.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// tune: BLOCK = 256 [128, 256]
#ifndef BLOCK
#define BLOCK 256
#endif
// Heads whose packs a thread turns by the angles it read once, all loaded before the first is stored.
// tune: HEADS = 4 [2, 4, 8]
#ifndef HEADS
#define HEADS 4
#endif
// Fewer threads than this with HEADS heads each: one head a thread, so that the work reaches every multiprocessor.
#ifndef BIG_THREADS
#define BIG_THREADS 200000
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr float kSign = 1.0f;  // -1 turns back

// Vec neighbours, moved as one access; 16 bytes where half a head is a multiple of that.
template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <int Bytes>
struct Word;
template <>
struct Word<16> { using type = uint4; };
template <>
struct Word<8> { using type = uint2; };
template <>
struct Word<4> { using type = unsigned; };
template <>
struct Word<2> { using type = unsigned short; };

// Plain loads: asked to give a line up first (`__ldcs`), an H200 reads up to 8 % slower.
template <int Vec, typename scalar_t>
__device__ Pack<scalar_t, Vec> load(const scalar_t* from) {
  using word_t = typename Word<sizeof(scalar_t) * Vec>::type;
  const word_t raw = *reinterpret_cast<const word_t*>(from);
  return *reinterpret_cast<const Pack<scalar_t, Vec>*>(&raw);
}

template <int Vec, typename scalar_t>
__device__ void store(scalar_t* to, Pack<scalar_t, Vec> pack) {
  using word_t = typename Word<sizeof(scalar_t) * Vec>::type;
  __stcs(reinterpret_cast<word_t*>(to), *reinterpret_cast<const word_t*>(&pack));
}

template <typename scalar_t, int Vec>
__device__ void widen(const Pack<scalar_t, Vec>& pack, float (&v)[Vec]) {
  if constexpr (std::is_same_v<scalar_t, float> || Vec == 1) {
#pragma unroll
    for (int j = 0; j < Vec; ++j) v[j] = static_cast<float>(pack.at[j]);
  } else {
#pragma unroll
    for (int j = 0; j < Vec; j += 2) {
      const unsigned word = *reinterpret_cast<const unsigned*>(pack.at + j);
      if constexpr (std::is_same_v<scalar_t, at::Half>) {
        const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&word));
        v[j] = two.x, v[j + 1] = two.y;
      } else {
        v[j] = __uint_as_float(word << 16), v[j + 1] = __uint_as_float(word & 0xffff0000u);
      }
    }
  }
}

template <typename scalar_t, int Vec>
__device__ Pack<scalar_t, Vec> narrow(const float (&v)[Vec]) {
  Pack<scalar_t, Vec> pack;
  if constexpr (std::is_same_v<scalar_t, float>) {
#pragma unroll
    for (int j = 0; j < Vec; ++j) pack.at[j] = v[j];
  } else if constexpr (Vec == 1) {
    pack.at[0] = static_cast<scalar_t>(v[0]);
  } else {  // two results share one conversion
#pragma unroll
    for (int j = 0; j < Vec; j += 2) {
      if constexpr (std::is_same_v<scalar_t, at::Half>)
        *reinterpret_cast<__half2*>(pack.at + j) = __floats2half2_rn(v[j], v[j + 1]);
      else
        *reinterpret_cast<__nv_bfloat162*>(pack.at + j) = __floats2bfloat162_rn(v[j], v[j + 1]);
    }
  }
  return pack;
}

// q and k as one row of heads (of all sequences), k's after q's; a head is seq rows of 2 * half entries.
template <typename scalar_t>
struct Turn {
  const scalar_t *q, *k, *cos, *sin;
  scalar_t *out_q, *out_k;
  int q_heads, heads;
  unsigned entries, half;  // of a table: seq * half
};

// Threads of a multiprocessor that the registers must suffice for: without it the compiler widens everything at once.
template <int Count>
constexpr int kResident = (Count > 4 ? 512 : Count > 1 ? 768 : 1024) / BLOCK;

// One thread a pack of angles and the same place of Count heads; blockIdx.x: places of a head, blockIdx.y: heads.
template <typename scalar_t, int Vec, int Count>
__global__ void __launch_bounds__(BLOCK, kResident<Count>) turn(Turn<scalar_t> t) {
  const unsigned angle = (blockIdx.x * BLOCK + threadIdx.x) * Vec;
  if (angle >= t.entries) return;
  const unsigned place = angle + angle / t.half * t.half;  // row * 2 * half + pair
  const int64_t head_size = 2 * static_cast<int64_t>(t.entries);
  for (int first = blockIdx.y * Count; first < t.heads; first += gridDim.y * Count) {
    const auto c_pack = load<Vec>(t.cos + angle), s_pack = load<Vec>(t.sin + angle);
    Pack<scalar_t, Vec> lows[Count], highs[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int head = first + i;
      if (head >= t.heads) continue;
      const scalar_t* from = head < t.q_heads ? t.q + head * head_size : t.k + (head - t.q_heads) * head_size;
      lows[i] = load<Vec>(from + place);
      highs[i] = load<Vec>(from + place + t.half);
    }
    float c[Vec], s[Vec];
    widen(c_pack, c);
    widen(s_pack, s);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int head = first + i;
      if (head >= t.heads) continue;
      float low[Vec], high[Vec], one[Vec], two[Vec];
      widen(lows[i], low);
      widen(highs[i], high);
#pragma unroll
      for (int j = 0; j < Vec; ++j) {
        one[j] = low[j] * c[j] - kSign * high[j] * s[j];
        two[j] = high[j] * c[j] + kSign * low[j] * s[j];
      }
      scalar_t* to = head < t.q_heads ? t.out_q + head * head_size : t.out_k + (head - t.q_heads) * head_size;
      store(to + place, narrow<scalar_t, Vec>(one));
      store(to + place + t.half, narrow<scalar_t, Vec>(two));
    }
  }
}

template <typename scalar_t, int Vec>
void launch(const Turn<scalar_t>& t) {
  const unsigned across = (t.entries / Vec + BLOCK - 1) / BLOCK;
  if (across == 0 || t.heads == 0) return;
  const int64_t threads = static_cast<int64_t>(t.entries / Vec) * t.heads / HEADS;
  const bool big = threads >= BIG_THREADS;
  const int count = big ? HEADS : 1;
  const dim3 grid(across, static_cast<unsigned>(std::min((t.heads + count - 1) / count, 65535)));
  const auto run = big ? turn<scalar_t, Vec, HEADS> : turn<scalar_t, Vec, 1>;
  run<<<grid, BLOCK, 0, at::cuda::getCurrentCUDAStream()>>>(t);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

bool aligned(std::initializer_list<torch::Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const torch::Tensor& t) { return reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0; });
}

std::vector<torch::Tensor> turned(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous(), "q and k must be contiguous");
  TORCH_CHECK(cos.is_contiguous() && sin.is_contiguous(), "cos and sin must be contiguous");
  TORCH_CHECK(q.size(2) * q.size(3) < (1ll << 32), "a head is too long");
  auto out_q = torch::empty_like(q), out_k = torch::empty_like(k);
  const bool whole = aligned({q, k, cos, sin, out_q, out_k});
  DISPATCH(q, "rope", [&] {
    const unsigned half = static_cast<unsigned>(q.size(3) / 2);
    const int q_heads = static_cast<int>(q.size(0) * q.size(1)), k_heads = static_cast<int>(k.size(0) * k.size(1));
    const Turn<scalar_t> t = {q.data_ptr<scalar_t>(),     k.data_ptr<scalar_t>(),     cos.data_ptr<scalar_t>(),
                              sin.data_ptr<scalar_t>(),   out_q.data_ptr<scalar_t>(), out_k.data_ptr<scalar_t>(),
                              q_heads,                    q_heads + k_heads,          static_cast<unsigned>(q.size(2)) * half,
                              half};
    constexpr int kMost = 16 / sizeof(scalar_t);
    if (whole && half % kMost == 0)
      launch<scalar_t, kMost>(t);
    else if (whole && half % (kMost / 2) == 0)
      launch<scalar_t, kMost / 2>(t);
    else if (whole && half % 2 == 0)
      launch<scalar_t, 2>(t);
    else
      launch<scalar_t, 1>(t);
  });
  return {out_q, out_k};
}

}  // namespace

std::vector<torch::Tensor> forward(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  return turned(q, k, cos, sin);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
