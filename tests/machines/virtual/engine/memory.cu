// Kernels whose traffic is known.
extern "C" __global__ void copy(const float* x, float* y, int stride) { y[threadIdx.x + blockIdx.x * blockDim.x] = x[(threadIdx.x + blockIdx.x * blockDim.x) * stride]; }
extern "C" __global__ void banks(float* y, int stride) {
  __shared__ float s[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) s[i] = i;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * stride];
}
extern "C" __global__ void bytes(const unsigned char* x, unsigned char* y, unsigned short* z) { y[threadIdx.x] = x[threadIdx.x] + 1; z[threadIdx.x] = x[threadIdx.x] * 2; }
extern "C" __global__ void __launch_bounds__(128) bounded(float* y) { y[threadIdx.x] = 1; }
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  atomicAdd(i, -2); atomicMin(i + 1, (int)threadIdx.x - 9); atomicMax(i + 2, (int)threadIdx.x); atomicAnd(i + 3, ~(1 << threadIdx.x)); atomicOr(i + 4, 1 << threadIdx.x);
  atomicXor(i + 5, 3); atomicInc(u, 9); atomicDec(u + 1, 9); atomicAdd(l, 1ull << 40); atomicAdd(f, 0.5f); atomicAdd(d, 0.25); atomicExch(u + 2, 77); atomicCAS(u + 3, threadIdx.x, threadIdx.x + 1);
}
#include <cstdio>
extern "C" __global__ void chatter() { for (int i = 0; i < 100; ++i) printf("line %d of thread %d\n", i, threadIdx.x); }
