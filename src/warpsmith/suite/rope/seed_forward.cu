// Rotary embedding of queries and keys, one thread a pair of entries.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20));
}

// Turns the pair (i, i + half) of every row by its position's angle; `sign` -1 turns back. One thread a pair.
template <typename scalar_t>
__global__ void turn(const scalar_t* from, const scalar_t* cos, const scalar_t* sin, scalar_t* out, int64_t pairs,
                     int64_t seq, int64_t half, float sign) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs; i += stride) {
    const int64_t row = i / half, pair = i % half;
    const int64_t place = row * 2 * half + pair, angle = row % seq * half + pair;
    const float c = static_cast<float>(cos[angle]), s = sign * static_cast<float>(sin[angle]);
    const float low = static_cast<float>(from[place]), high = static_cast<float>(from[place + half]);
    out[place] = static_cast<scalar_t>(low * c - high * s);
    out[place + half] = static_cast<scalar_t>(high * c + low * s);
  }
}

torch::Tensor turned(torch::Tensor from, torch::Tensor cos, torch::Tensor sin, float sign) {
  TORCH_CHECK(from.is_contiguous() && cos.is_contiguous() && sin.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(from);
  const int64_t pairs = from.numel() / 2;
  DISPATCH(from, "rope", [&] {
    turn<scalar_t><<<blocks_for(pairs), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        from.data_ptr<scalar_t>(), cos.data_ptr<scalar_t>(), sin.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
        pairs, from.size(2), from.size(3) / 2, sign);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace

std::vector<torch::Tensor> forward(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  return {turned(q, cos, sin, 1.0f), turned(k, cos, sin, 1.0f)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
