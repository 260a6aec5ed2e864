// silu(gate) * up: a stream of 16-byte packs, several in flight a thread, every byte touched once.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

// tune: BLOCK = 256 [256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Packs of 16 bytes a thread has in flight of each input, where there is enough work to fill the GPU that way.
// tune: UNROLL = 1 [1, 2, 4]
#ifndef UNROLL
#define UNROLL 1
#endif
// Fewer packs than this: one a thread, so that the work reaches every multiprocessor.
#ifndef BIG_PACKS
#define BIG_PACKS 1000000
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename scalar_t>
constexpr int kVec = 16 / sizeof(scalar_t);

// Sixteen bytes as floats, and back, rounded to nearest. Two 16-bit numbers share a word.
template <typename scalar_t>
__device__ void unpack(uint4 raw, float (&v)[kVec<scalar_t>]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      v[j] = __uint_as_float(words[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&words[j]));
      v[2 * j] = two.x, v[2 * j + 1] = two.y;
    } else {
      v[2 * j] = __uint_as_float(words[j] << 16), v[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
    }
  }
}

template <typename scalar_t>
__device__ uint4 packed(const float (&v)[kVec<scalar_t>]) {
  uint32_t words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      words[j] = __float_as_uint(v[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const __half2 two = __floats2half2_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    } else {
      const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// 1 / (1 + e^-g) by the hardware's exp2 and reciprocal: a few units of roundoff of float32, and 0 where e^-g overflows.
// The forms that flush denormals, since no step of this can need them, are one instruction each.
__device__ float sigmoid(float g) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.44269504f * g));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// A block has BLOCK * Unroll packs in a row; the entries that no pack covers are the first threads'.
template <typename scalar_t, int Unroll>
__global__ void __launch_bounds__(BLOCK)
    swiglu(const scalar_t* gate, const scalar_t* up, scalar_t* out, unsigned packs, int rest) {
  constexpr int Vec = kVec<scalar_t>;
  const unsigned first = blockIdx.x * (BLOCK * Unroll) + threadIdx.x;
  uint4 gates[Unroll], ups[Unroll];
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < packs) {
      gates[k] = reinterpret_cast<const uint4*>(gate)[i];
      ups[k] = reinterpret_cast<const uint4*>(up)[i];
    }
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (const unsigned i = first + k * BLOCK; i < packs) {
      float g[Vec], u[Vec];
      unpack<scalar_t>(gates[k], g);
      unpack<scalar_t>(ups[k], u);
#pragma unroll
      for (int j = 0; j < Vec; ++j) g[j] = g[j] * sigmoid(g[j]) * u[j];
      __stcs(reinterpret_cast<uint4*>(out) + i, packed<scalar_t>(g));
    }
  if (blockIdx.x == 0 && threadIdx.x < rest) {
    const int64_t i = static_cast<int64_t>(packs) * Vec + threadIdx.x;
    const float g = static_cast<float>(gate[i]);
    out[i] = static_cast<scalar_t>(g * sigmoid(g) * static_cast<float>(up[i]));
  }
}

// Tensors that do not begin at 16 bytes: one thread an entry.
template <typename scalar_t>
__global__ void __launch_bounds__(BLOCK) swiglu_single(const scalar_t* gate, const scalar_t* up, scalar_t* out,
                                                       int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
  if (i >= count) return;
  const float g = static_cast<float>(gate[i]);
  out[i] = static_cast<scalar_t>(g * sigmoid(g) * static_cast<float>(up[i]));
}

template <typename scalar_t>
void launch(const scalar_t* gate, const scalar_t* up, scalar_t* out, int64_t count) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t packs = count / kVec<scalar_t>;
  const auto blocks = [](int64_t n, int64_t each) { return static_cast<unsigned>(n == 0 ? 1 : (n + each - 1) / each); };
  if (count == 0) return;
  if (!aligned(gate) || !aligned(up) || !aligned(out) || packs > 0xf0000000ll) {
    swiglu_single<scalar_t><<<blocks(count, BLOCK), BLOCK, 0, stream>>>(gate, up, out, count);
  } else {
    const bool big = packs >= BIG_PACKS;
    const auto run = big ? swiglu<scalar_t, UNROLL> : swiglu<scalar_t, 1>;
    run<<<blocks(packs, BLOCK * (big ? UNROLL : 1)), BLOCK, 0, stream>>>(
        gate, up, out, static_cast<unsigned>(packs), static_cast<int>(count % kVec<scalar_t>));
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor gate, torch::Tensor up) {
  TORCH_CHECK(gate.is_contiguous() && up.is_contiguous(), "gate and up must be contiguous");
  auto out = torch::empty_like(gate);
  DISPATCH(gate, "swiglu", [&] {
    launch(gate.data_ptr<scalar_t>(), up.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), gate.numel());
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
