// Accumulation types, ceil_div, and the small device names of ATen that kernels use.
#pragma once

#include "scalar_type.h"

namespace c10 {

namespace detail {
template <class T>
struct AccumulateType {
  using type = std::conditional_t<std::is_same_v<T, bool>, bool, std::conditional_t<std::is_integral_v<T>, int64_t, T>>;
};
template <>
struct AccumulateType<Half> {
  using type = float;
};
template <>
struct AccumulateType<BFloat16> {
  using type = float;
};
template <>
struct AccumulateType<Float8_e4m3fn> {
  using type = float;
};
template <>
struct AccumulateType<Float8_e5m2> {
  using type = float;
};
template <class T>
struct OpMath {
  using type = T;
};
template <>
struct OpMath<Half> {
  using type = float;
};
template <>
struct OpMath<BFloat16> {
  using type = float;
};
template <>
struct OpMath<Float8_e4m3fn> {
  using type = float;
};
template <>
struct OpMath<Float8_e5m2> {
  using type = float;
};
}  // namespace detail

template <class T, bool is_cuda = true>
using acc_type = typename detail::AccumulateType<T>::type;
template <class T>
using opmath_type = typename detail::OpMath<T>::type;

template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
C10_HOST_DEVICE constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }
template <class T>
C10_HOST_DEVICE constexpr T round_up(T a, T b) { return ceil_div(a, b) * b; }

template <class Container>
int64_t multiply_integers(const Container& list) {
  int64_t product = 1;
  for (auto value : list) product *= value;
  return product;
}

}  // namespace c10

#define C10_WARP_SIZE 32
#define C10_RESTRICT __restrict__
#define C10_LIKELY(CONDITION) (__builtin_expect(static_cast<bool>(CONDITION), 1))
#define C10_UNLIKELY(CONDITION) (__builtin_expect(static_cast<bool>(CONDITION), 0))
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_HOST_DEVICE_INLINE __host__ __device__ inline
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(THREADS) __launch_bounds__(THREADS)
#define C10_LAUNCH_BOUNDS_2(THREADS, BLOCKS) __launch_bounds__(THREADS, BLOCKS)
#define CUDA_KERNEL_LOOP_TYPE(I, N, TYPE)                                                      \
  for (TYPE I = TYPE(blockIdx.x) * blockDim.x + threadIdx.x; I < (N); I += TYPE(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(I, N) CUDA_KERNEL_LOOP_TYPE(I, N, int)

namespace at::cuda::detail {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t count, int64_t threads = CUDA_NUM_THREADS) {
  return static_cast<int>((count + threads - 1) / threads);
}
}  // namespace at::cuda::detail

template <class T>
__device__ __forceinline__ T WARP_SHFL_XOR(T value, int mask, int width = 32, unsigned lanes = 0xffffffff) {
  return __shfl_xor_sync(lanes, value, mask, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = 32, unsigned lanes = 0xffffffff) {
  return __shfl_sync(lanes, value, lane, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_UP(T value, unsigned delta, int width = 32, unsigned lanes = 0xffffffff) {
  return __shfl_up_sync(lanes, value, delta, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned lanes = 0xffffffff) {
  return __shfl_down_sync(lanes, value, delta, width);
}
template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
#ifdef WARPSMITH_CUDA_HALF
__device__ __forceinline__ c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value) {
  return atomicAdd(static_cast<__half*>(address), static_cast<__half>(value));
}
__device__ __forceinline__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
  return atomicAdd(static_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
#endif
template <class T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* address, T value) { gpuAtomicAdd(address, value); }
