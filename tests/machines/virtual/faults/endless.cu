// Loops that never end: the budget of instructions stops them. Any marked line of the loop may be named.
#include "fault.h"

// A step of zero.
template <bool kFixed>
__global__ void no_step(const float* x, float* out, int n) {
  int step = kFixed ? 32 : n / 2048;
  float sum = 0;
  for (int i = threadIdx.x; i < 64; i += step)  // fault: no_step
    sum += *const_cast<const volatile float*>(x + i);  // fault: no_step
  out[threadIdx.x] = sum;
}

// Nobody ever sets the flag.
template <bool kFixed>
__global__ void dead_flag(const float* x, float* out, int n) {
  volatile float* flag = out;
  if (kFixed && threadIdx.x == 0) *flag = 1.f;
  __syncwarp();
  while (*flag == 0.f) {}  // fault: dead_flag
  out[threadIdx.x + 1] = x[threadIdx.x];
}

// The lock is taken and never given back.
template <bool kFixed>
__global__ void kept_lock(const float* x, float* out, int n) {
  int* lock = reinterpret_cast<int*>(out);
  if (threadIdx.x) return;
  while (atomicCAS(lock, 0, 1) != 0) {}  // fault: kept_lock
  out[1 + blockIdx.x] = x[blockIdx.x];
  if constexpr (kFixed) {
    __threadfence();
    atomicExch(lock, 0);
  }
}

// One is never reached in steps of a tenth.
template <bool kFixed>
__global__ void missed_end(const float* x, float* out, int n) {
  float v = x[0];
  int steps = 0;
  while (kFixed ? v < 1.f : v != 1.f) {  // fault: missed_end
    v += 0.1f;  // fault: missed_end
    ++steps;    // fault: missed_end
  }
  out[threadIdx.x] = steps;
}

// Two blocks wait for each other.
template <bool kFixed>
__global__ void crossed_waits(const float* x, float* out, int n) {
  volatile float* flags = out;
  if (threadIdx.x) return;
  if constexpr (kFixed) flags[blockIdx.x] = 1.f;
  while (flags[1 - blockIdx.x] == 0.f) {}  // fault: crossed_waits
  if constexpr (!kFixed) flags[blockIdx.x] = 1.f;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(no_step<true>, 1, 32, 0));
  TWINS(no_step, 1, 32, 0);
  TWINS(dead_flag, 1, 32, 0);
  TWINS(kept_lock, 2, 32, 0);
  TWINS(missed_end, 1, 32, 0);
  TWINS(crossed_waits, 2, 32, 0);
}
