// Reads of memory nobody wrote.
#include "fault.h"

template <bool kFixed>
__global__ void shared_tail(const float* x, float* out, int n) {
  __shared__ float tile[64];
  if (threadIdx.x < (kFixed ? 64 : 60)) tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // fault: shared_tail
}

template <bool kFixed>
__global__ void missing_halo(const float* x, float* out, int n) {
  __shared__ float row[66];
  int t = threadIdx.x;
  row[t + 1] = x[t];
  if (t == 0) row[0] = 0.f;
  if (kFixed && t == 1) row[65] = 0.f;
  __syncthreads();
  float sum = row[t] + row[t + 1];
  out[t] = sum + row[t + 2];  // fault: missing_halo
}

template <bool kFixed>
__global__ void unzeroed_histogram(const float* x, float* out, int n) {
  extern __shared__ int bins[];
  if (kFixed && threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    atomicAdd(&bins[static_cast<int>(x[i]) % 16], 1);  // fault: unzeroed_histogram
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];
}

__global__ void accumulate_kernel(const float* x, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sums[i] += x[i];  // fault: accumulate_into_empty
}
template <bool kFixed>
torch::Tensor accumulate_into_empty(torch::Tensor x) {
  auto sums = kFixed ? torch::zeros_like(x) : torch::empty_like(x);
  accumulate_kernel<<<4, 256, 0, stream()>>>(x.data_ptr<float>(), sums.data_ptr<float>(), x.numel());
  return sums;
}

__global__ void atomic_kernel(const float* x, float* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, x[i]);  // fault: atomic_into_empty
}
template <bool kFixed>
torch::Tensor atomic_into_empty(torch::Tensor x) {
  auto sum = kFixed ? torch::zeros({1}, x.options()) : torch::empty({1}, x.options());
  atomic_kernel<<<4, 256, 0, stream()>>>(x.data_ptr<float>(), sum.data_ptr<float>(), x.numel());
  return sum;
}

// The first pass leaves out the last element; the second reads it.
__global__ void first_pass(const float* x, float* between, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) between[i] = x[i] * 2.f;
}
__global__ void second_pass(const float* between, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = between[i] + 1.f;  // fault: short_first_pass
}
template <bool kFixed>
torch::Tensor short_first_pass(torch::Tensor x) {
  auto between = torch::empty_like(x), out = torch::empty_like(x);
  int n = x.numel();
  first_pass<<<4, 256, 0, stream()>>>(x.data_ptr<float>(), between.data_ptr<float>(), kFixed ? n : n - 1);
  second_pass<<<4, 256, 0, stream()>>>(between.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}

// A product of a warp group whose second operand has a column too few.
template <bool kFixed>
__global__ void short_operand(const float* x, float* out, int n) {
  __shared__ __align__(128) float left[512], right[64];
  for (int i = threadIdx.x; i < 512; i += 128) left[i] = x[i];
  if (threadIdx.x < (kFixed ? 64 : 60)) right[threadIdx.x] = x[threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint64_t offsets = uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
  const uint64_t a = offsets | __cvta_generic_to_shared(left) >> 4, b = offsets | __cvta_generic_to_shared(right) >> 4;
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %5, p, 1, 1; }"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));  // fault: short_operand
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(shared_tail<true>, 1, 64, 0));
  TWINS(shared_tail, 1, 64, 0);
  TWINS(missing_halo, 1, 64, 0);
  TWINS(unzeroed_histogram, 1, 128, 64);
  HOST_TWINS(accumulate_into_empty);
  HOST_TWINS(atomic_into_empty);
  HOST_TWINS(short_first_pass);
  TWINS(short_operand, 1, 128, 0);
}
