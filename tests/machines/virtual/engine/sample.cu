// One of everything a module may hold, to be cut short and damaged.
#include <cstdio>
__constant__ float coefficients[3] = {1, 2, 3};
__device__ int words[4] = {5, 6};
__device__ int* pointer = words + 1;
__device__ __noinline__ float helper(float a) { return a * coefficients[1]; }
extern "C" __global__ void __launch_bounds__(64) sample(float* x, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = helper(x[threadIdx.x]);
  __syncthreads();
  switch (n) { case 0: x[0] = 1; break; case 1: x[1] = 2; break; case 2: x[2] = s[3]; break; case 3: x[3] = 4; break; case 4: x[4] = *pointer; break; default: printf("%d\n", n); }
}
