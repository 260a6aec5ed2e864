// Gradients of silu(gate) * up, one thread an element.
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

// The gradients of gate and up, in place of them.
template <typename scalar_t>
__device__ void turn(scalar_t grad_out, scalar_t& gate, scalar_t& up) {
  const float grad = static_cast<float>(grad_out), g = static_cast<float>(gate);
  const float share = 1.0f / (1.0f + expf(-g));
  gate = static_cast<scalar_t>(grad * static_cast<float>(up) * share * (1.0f + g * (1.0f - share)));
  up = static_cast<scalar_t>(grad * g * share);
}

template <typename scalar_t>
__global__ void swiglu_backward(const scalar_t* grad_out, const scalar_t* gate, const scalar_t* up,
                                scalar_t* grad_gate, scalar_t* grad_up, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * BLOCK, packs = count / VEC;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
  for (int64_t first = own; first < packs; first += stride * UNROLL) {
    Pack<scalar_t> grads[UNROLL], gates[UNROLL], ups[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k)
      if (const int64_t i = first + k * stride; i < packs)
        grads[k] = load(grad_out, i), gates[k] = load(gate, i), ups[k] = load(up, i);
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      const int64_t i = first + k * stride;
      if (i >= packs) continue;
#pragma unroll
      for (int j = 0; j < VEC; ++j) turn(grads[k].at[j], gates[k].at[j], ups[k].at[j]);
      reinterpret_cast<Pack<scalar_t>*>(grad_gate)[i] = gates[k];
      reinterpret_cast<Pack<scalar_t>*>(grad_up)[i] = ups[k];
    }
  }
  const int64_t rest = packs * VEC + own;  // what no pack covers
  if (rest >= count) return;
  scalar_t g = gate[rest], u = up[rest];
  turn(grad_out[rest], g, u);
  grad_gate[rest] = g;
  grad_up[rest] = u;
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor gate, torch::Tensor up) {
  TORCH_CHECK(grad_out.is_contiguous() && gate.is_contiguous() && up.is_contiguous(), "tensors must be contiguous");
  auto grad_gate = torch::empty_like(gate);
  auto grad_up = torch::empty_like(up);
  DISPATCH(gate, "swiglu_backward", [&] {
    swiglu_backward<scalar_t><<<blocks_for(gate.numel() / VEC), BLOCK, 0, at::cuda::getCurrentCUDAStream()>>>(
        grad_out.data_ptr<scalar_t>(), gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(),
        grad_gate.data_ptr<scalar_t>(), grad_up.data_ptr<scalar_t>(), gate.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_gate, grad_up};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
