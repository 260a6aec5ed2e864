// Rotary embedding of queries and keys, one thread a pair of entries.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How pairs are shared out. 0: a flat index over all pairs of q, then of k. 1: a block has some pairs of HEADS heads,
// whose angles it reads once. 2: as 1, q and k in one launch.
// tune: STRATEGY = 0 [0, 1, 2]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once, where half a head is a multiple of it.
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif
// tune: HEADS = 1 [1, 4]
#ifndef HEADS
#define HEADS 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr float kSign = 1.0f;  // -1 turns back

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

// One tensor to turn: its heads (of all sequences) of seq rows of 2 * half entries.
template <typename scalar_t>
struct Heads {
  const scalar_t* from;
  scalar_t* out;
  int64_t heads;
};

template <typename scalar_t>
struct Angles {
  const scalar_t *cos, *sin;
  int64_t seq, half;
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

// Turns neighbouring pairs (i, i + half) from `place` on by their angles.
template <int Vec, typename scalar_t>
__device__ void turn(Heads<scalar_t> h, int64_t place, int64_t half, const float (&c)[Vec], const float (&s)[Vec]) {
  float low[Vec], high[Vec];
  load(low, h.from + place);
  load(high, h.from + place + half);
  Pack<scalar_t, Vec> first, second;
#pragma unroll
  for (int j = 0; j < Vec; ++j) {
    first.at[j] = static_cast<scalar_t>(low[j] * c[j] - kSign * high[j] * s[j]);
    second.at[j] = static_cast<scalar_t>(high[j] * c[j] + kSign * low[j] * s[j]);
  }
  *reinterpret_cast<Pack<scalar_t, Vec>*>(h.out + place) = first;
  *reinterpret_cast<Pack<scalar_t, Vec>*>(h.out + place + half) = second;
}

// One thread a pack of pairs.
template <typename scalar_t, int Vec>
__global__ void turn_flat(Heads<scalar_t> h, Angles<scalar_t> a) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * BLOCK * Vec, count = h.heads * a.seq * a.half;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) * Vec; i < count; i += stride) {
    const int64_t row = i / a.half, pair = i % a.half, angle = row % a.seq * a.half + pair;
    float c[Vec], s[Vec];
    load(c, a.cos + angle);
    load(s, a.sin + angle);
    turn(h, row * 2 * a.half + pair, a.half, c, s);
  }
}

// One thread a pack of pairs of HEADS heads; `across` blocks cover a head. The heads of k follow those of q.
template <typename scalar_t, int Vec>
__global__ void turn_heads(Heads<scalar_t> q, Heads<scalar_t> k, Angles<scalar_t> a, unsigned across) {
  const unsigned angle = (blockIdx.x % across * BLOCK + threadIdx.x) * Vec, half = static_cast<unsigned>(a.half);
  if (angle >= a.seq * a.half) return;
  const int64_t begin = static_cast<int64_t>(blockIdx.x / across) * HEADS;
  const int64_t place = static_cast<int64_t>(angle / half) * 2 * half + angle % half;
  float c[Vec], s[Vec];
  load(c, a.cos + angle);
  load(s, a.sin + angle);
#pragma unroll
  for (int64_t i = begin; i < begin + HEADS; ++i) {
    if (i < q.heads)
      turn(q, i * a.seq * 2 * half + place, a.half, c, s);
    else if (i < q.heads + k.heads)
      turn(k, (i - q.heads) * a.seq * 2 * half + place, a.half, c, s);
  }
}

template <typename scalar_t, int Vec>
void launch(Heads<scalar_t> q, Heads<scalar_t> k, Angles<scalar_t> a) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t packs = a.seq * a.half / Vec;
  if constexpr (STRATEGY > 0) {
    const int64_t across = (packs + BLOCK - 1) / BLOCK, groups = (q.heads + k.heads + HEADS - 1) / HEADS;
    turn_heads<scalar_t, Vec>
        <<<static_cast<unsigned>(across * groups), BLOCK, 0, stream>>>(q, k, a, static_cast<unsigned>(across));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    const int64_t blocks = std::min<int64_t>((q.heads * packs + BLOCK - 1) / BLOCK, 1 << 20);
    turn_flat<scalar_t, Vec><<<static_cast<unsigned>(blocks), BLOCK, 0, stream>>>(q, a);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

template <typename scalar_t>
Heads<scalar_t> heads_of(torch::Tensor from, torch::Tensor out) {
  return {from.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), from.size(0) * from.size(1)};
}

std::vector<torch::Tensor> turned(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous(), "q and k must be contiguous");
  TORCH_CHECK(cos.is_contiguous() && sin.is_contiguous(), "cos and sin must be contiguous");
  auto out_q = torch::empty_like(q), out_k = torch::empty_like(k);
  const int64_t half = q.size(3) / 2;
  DISPATCH(q, "rope", [&] {
    const auto first = heads_of<scalar_t>(q, out_q), second = heads_of<scalar_t>(k, out_k);
    const Angles<scalar_t> a = {cos.data_ptr<scalar_t>(), sin.data_ptr<scalar_t>(), q.size(2), half};
    const Heads<scalar_t> none = {nullptr, nullptr, 0};
    const auto run = half % VEC == 0 ? launch<scalar_t, VEC> : launch<scalar_t, 1>;
    run(first, STRATEGY == 2 ? second : none, a);
    if (STRATEGY != 2) run(second, none, a);
  });
  return {out_q, out_k};
}

}  // namespace

std::vector<torch::Tensor> forward(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  return turned(q, k, cos, sin);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
