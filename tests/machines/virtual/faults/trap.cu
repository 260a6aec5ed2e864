// Kernels that stop themselves.
#include "fault.h"

#include <cassert>

template <bool kFixed>
__global__ void failed_assert(const float* x, float* out, int n) {
  int i = threadIdx.x;
  if constexpr (!kFixed) assert(x[i] < 63.f);  // fault: failed_assert
  assert(x[i] < 64.f);
  out[i] = x[i];
}

template <bool kFixed>
__device__ __noinline__ float checked(float v) {
  if constexpr (!kFixed) assert(v != 5.f && "five is not allowed");  // fault: assert_in_function
  return v * 2.f;
}
template <bool kFixed>
__global__ void assert_in_function(const float* x, float* out, int n) {
  out[threadIdx.x] = checked<kFixed>(x[threadIdx.x]);
}

template <bool kFixed>
__global__ void trap_intrinsic(const float* x, float* out, int n) {
  if (x[threadIdx.x] > (kFixed ? 1e6f : 60.f)) __trap();  // fault: trap_intrinsic
  out[threadIdx.x] = 1.f;
}

template <bool kFixed>
__global__ void trap_instruction(const float* x, float* out, int n) {
  if (threadIdx.x == (kFixed ? 1000 : 40)) asm volatile("trap;");  // fault: trap_instruction
  out[threadIdx.x] = x[threadIdx.x];
}

template <bool kFixed>
__global__ void kernel_assert(const float* x, float* out, int n) {
  int at = static_cast<int>(x[threadIdx.x]) + (kFixed ? 0 : n);
  CUDA_KERNEL_ASSERT(at < n);  // fault: kernel_assert
  out[at] = 1.f;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(failed_assert<true>, 1, 64, 0));
  TWINS(failed_assert, 1, 64, 0);
  TWINS(assert_in_function, 1, 64, 0);
  TWINS(trap_intrinsic, 1, 64, 0);
  TWINS(trap_instruction, 1, 64, 0);
  TWINS(kernel_assert, 1, 64, 0);
}
