// silu(gate) * up, one thread an element.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How many blocks there are. 0: one step of the loop a thread. 1: as many as fill the GPU at once, which loop.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once (a pack).
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif
// Packs that a thread has in flight at once.
// tune: UNROLL = 1 [1, 2]
#ifndef UNROLL
#define UNROLL 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int64_t kFill = 1056;  // eight blocks for each of an H200's 132 multiprocessors

template <typename scalar_t>
struct alignas(sizeof(scalar_t) * VEC) Pack {
  scalar_t at[VEC];
};

template <typename scalar_t>
__device__ Pack<scalar_t> load(const scalar_t* from, int64_t pack) {
  return reinterpret_cast<const Pack<scalar_t>*>(from)[pack];
}

// Blocks for a grid-stride loop over `packs`.
unsigned blocks_for(int64_t packs) {
  const int64_t steps = std::max<int64_t>((packs + BLOCK * UNROLL - 1) / (BLOCK * UNROLL), 1);
  return static_cast<unsigned>(std::min<int64_t>(steps, STRATEGY == 1 ? kFill : 1 << 20));
}

template <typename scalar_t>
__device__ scalar_t gated(scalar_t gate, scalar_t up) {
  const float g = static_cast<float>(gate);
  return static_cast<scalar_t>(g / (1.0f + expf(-g)) * static_cast<float>(up));
}

template <typename scalar_t>
__global__ void swiglu(const scalar_t* gate, const scalar_t* up, scalar_t* out, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * BLOCK, packs = count / VEC;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
  for (int64_t first = own; first < packs; first += stride * UNROLL) {
    Pack<scalar_t> gates[UNROLL], ups[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k)
      if (const int64_t i = first + k * stride; i < packs) gates[k] = load(gate, i), ups[k] = load(up, i);
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      const int64_t i = first + k * stride;
      if (i >= packs) continue;
#pragma unroll
      for (int j = 0; j < VEC; ++j) gates[k].at[j] = gated(gates[k].at[j], ups[k].at[j]);
      reinterpret_cast<Pack<scalar_t>*>(out)[i] = gates[k];
    }
  }
  const int64_t rest = packs * VEC + own;  // what no pack covers
  if (rest < count) out[rest] = gated(gate[rest], up[rest]);
}

}  // namespace

torch::Tensor forward(torch::Tensor gate, torch::Tensor up) {
  TORCH_CHECK(gate.is_contiguous() && up.is_contiguous(), "gate and up must be contiguous");
  auto out = torch::empty_like(gate);
  DISPATCH(gate, "swiglu", [&] {
    swiglu<scalar_t><<<blocks_for(gate.numel() / VEC), BLOCK, 0, at::cuda::getCurrentCUDAStream()>>>(
        gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), gate.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
