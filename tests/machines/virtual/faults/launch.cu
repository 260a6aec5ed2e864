// Launches beyond the limits of the GPU. The fault lies in the launch, so the finding names the kernel, not a line.
#include "fault.h"

// fault: too_many_threads
template <bool kFixed>
__global__ void too_many_threads(const float* x, float* out, int n) { out[threadIdx.x % 1024] = x[0]; }

// fault: no_threads
template <bool kFixed>
__global__ void no_threads(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x]; }

// fault: no_blocks
template <bool kFixed>
__global__ void no_blocks(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x]; }

// fault: too_deep_a_block
template <bool kFixed>
__global__ void too_deep_a_block(const float* x, float* out, int n) { out[threadIdx.z] = x[threadIdx.z]; }

// fault: too_high_a_grid
template <bool kFixed>
__global__ void too_high_a_grid(const float* x, float* out, int n) {
  if (blockIdx.y == 0) out[threadIdx.x] = x[threadIdx.x];
}

// More than 48 KB need an attribute of the function.
// fault: shared_without_opting_in
template <bool kFixed>
__global__ void shared_without_opting_in(const float* x, float* out, int n) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = tile[threadIdx.x];
}
template <bool kFixed>
torch::Tensor opting(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  constexpr int bytes = 64 * 1024;
  if constexpr (kFixed)
    C10_CUDA_CHECK(cudaFuncSetAttribute(shared_without_opting_in<kFixed>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  shared_without_opting_in<kFixed><<<1, 128, bytes, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

// Promised to ptxas, and not kept.
// fault: broken_launch_bounds
template <bool kFixed>
__global__ __launch_bounds__(128) void broken_launch_bounds(const float* x, float* out, int n) {
  out[threadIdx.x] = x[threadIdx.x];
}

// 160 values alive at once in each of 1024 threads are more registers than an SM has.
// fault: too_many_registers
template <bool kFixed>
__global__ void too_many_registers(const float* x, float* out, int n) {
  float v[160];
#pragma unroll
  for (int k = 0; k < 160; ++k) v[k] = x[(threadIdx.x + k * 5) % n];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 160; ++k) sum = fmaf(v[k], v[159 - k], sum);
  out[threadIdx.x] = sum;
}

#define LAUNCH_TWINS(NAME, BLOCKS, FIXED_BLOCKS, THREADS, FIXED_THREADS)                                      \
  m.def(#NAME, RUN(NAME<false>, BLOCKS, THREADS, 0));                                                         \
  m.def(#NAME "_fixed", RUN(NAME<true>, FIXED_BLOCKS, FIXED_THREADS, 0))

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(too_many_threads<true>, 1, 32, 0));
  LAUNCH_TWINS(too_many_threads, 1, 1, 2048, 1024);
  LAUNCH_TWINS(no_threads, 1, 1, 0, 32);
  LAUNCH_TWINS(no_blocks, 0, 1, 32, 32);
  LAUNCH_TWINS(too_deep_a_block, 1, 1, dim3(1, 1, 65), dim3(1, 1, 64));
  LAUNCH_TWINS(too_high_a_grid, dim3(1, 65536), dim3(1, 3), 32, 32);
  LAUNCH_TWINS(broken_launch_bounds, 1, 1, 256, 128);
  LAUNCH_TWINS(too_many_registers, 1, 1, 1024, 128);
  m.def("shared_without_opting_in", &opting<false>);
  m.def("shared_without_opting_in_fixed", &opting<true>);
}
