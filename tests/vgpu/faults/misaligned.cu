// Vector and wide accesses at addresses that are not a multiple of their size.
#include "fault.h"

#include <cuda_fp16.h>

template <bool kFixed>
__global__ void float4_off_by_one(const float* x, float* out, int n) {
  const float* from = x + threadIdx.x * 4 + (kFixed ? 0 : 1);
  float4 v = *reinterpret_cast<const float4*>(from);  // fault: float4_off_by_one
  out[threadIdx.x] = v.x + v.y;
}

template <bool kFixed>
__global__ void float2_store(const float* x, float* out, int n) {
  float2 v = make_float2(x[threadIdx.x], 1.f);
  float* to = out + threadIdx.x * 2 + (kFixed ? 0 : 1);
  *reinterpret_cast<float2*>(to) = v;  // fault: float2_store
}

template <bool kFixed>
__global__ void double_at_four(const float* x, float* out, int n) {
  const char* from = reinterpret_cast<const char*>(x) + threadIdx.x * 8 + (kFixed ? 0 : 4);
  double v = *reinterpret_cast<const double*>(from);  // fault: double_at_four
  out[threadIdx.x] = static_cast<float>(v > 0);
}

template <bool kFixed>
__global__ void shared_int4(const float* x, float* out, int n) {
  extern __shared__ __align__(16) int words[];
  for (int i = threadIdx.x; i < 256; i += 32) words[i] = static_cast<int>(x[i]);
  __syncwarp();
  int at = threadIdx.x * 4 + (kFixed ? 0 : n / 512);
  int4 v = *reinterpret_cast<int4*>(words + at);  // fault: shared_int4
  out[threadIdx.x] = v.x + v.w;
}

template <bool kFixed>
__global__ void half2_at_odd(const float* x, float* out, int n) {
  const __half* from = reinterpret_cast<const __half*>(x) + threadIdx.x * 2 + (kFixed ? 0 : 1);
  __half2 v = *reinterpret_cast<const __half2*>(from);  // fault: half2_at_odd
  out[threadIdx.x] = __low2float(v) == 0.f;
}

template <bool kFixed>
__global__ void wide_atomic(const float* x, float* out, int n) {
  char* to = reinterpret_cast<char*>(out) + threadIdx.x * 8 + (kFixed ? 0 : 4);
  atomicAdd(reinterpret_cast<unsigned long long*>(to), 1ull);  // fault: wide_atomic
}

template <bool kFixed>
__global__ void async_copy(const float* x, float* out, int n) {
  __shared__ __align__(16) float tile[128];
  const float* from = x + threadIdx.x * 4 + (kFixed ? 0 : 2);
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // fault: async_copy
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x];
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(float4_off_by_one<true>, 1, 64, 0));
  TWINS(float4_off_by_one, 1, 64, 0);
  TWINS(float2_store, 1, 64, 0);
  TWINS(double_at_four, 1, 64, 0);
  TWINS(shared_int4, 1, 32, 1024);
  TWINS(half2_at_odd, 1, 64, 0);
  TWINS(wide_atomic, 1, 64, 0);
  TWINS(async_copy, 1, 32, 0);
}
