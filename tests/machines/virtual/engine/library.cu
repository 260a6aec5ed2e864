// Kernels over CUB, cooperative groups, libcu++ and the math library, as nvcc emits them.
#include <cub/cub.cuh>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda/barrier>
#include <cuda/atomic>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cub_reduce(const float* x, float* y) {
  using R = cub::BlockReduce<float, 256>; __shared__ typename R::TempStorage t;
  float s = R(t).Sum(x[threadIdx.x]); if (threadIdx.x == 0) y[0] = s;
  __syncthreads();
  float m = R(t).Reduce(x[threadIdx.x], [](float a, float b) { return a > b ? a : b; }); if (threadIdx.x == 0) y[1] = m;
}
extern "C" __global__ void cub_scan(const int* x, int* y) {
  using S = cub::BlockScan<int, 256>; __shared__ typename S::TempStorage t; int v = x[threadIdx.x], r; S(t).ExclusiveSum(v, r); y[threadIdx.x] = r;
}
extern "C" __global__ void cub_sort(const unsigned* x, unsigned* y) {
  using S = cub::BlockRadixSort<unsigned, 128, 4>; __shared__ typename S::TempStorage t; unsigned k[4];
  for (int i = 0; i < 4; ++i) k[i] = x[threadIdx.x * 4 + i];
  S(t).Sort(k);
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = k[i];
}
extern "C" __global__ void cub_load(const float* x, float* y) {
  using L = cub::BlockLoad<float, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>; using S = cub::BlockStore<float, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union { typename L::TempStorage l; typename S::TempStorage s; } t; float k[4];
  L(t.l).Load(x, k); __syncthreads(); for (int i = 0; i < 4; ++i) k[i] *= 2; S(t.s).Store(y, k);
}
extern "C" __global__ void cg_reduce(const float* x, float* y) {
  auto b = cg::this_thread_block(); auto t = cg::tiled_partition<16>(b);
  float s = cg::reduce(t, x[threadIdx.x], cg::plus<float>()); if (t.thread_rank() == 0) y[threadIdx.x / 16] = s;
  int i = cg::inclusive_scan(t, (int)threadIdx.x % 3); y[16 + threadIdx.x] = i;
  auto c = cg::coalesced_threads(); if (threadIdx.x % 3 == 0) { auto d = cg::coalesced_threads(); y[300 + threadIdx.x] = d.shfl((float)threadIdx.x, 0) + d.size(); }
}
extern "C" __global__ void cg_copy(const float* x, float* y) {
  __shared__ float s[256]; auto b = cg::this_thread_block(); cg::memcpy_async(b, s, x, sizeof(float) * 256); cg::wait(b); y[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void pipeline2(const float* x, float* y) {
  constexpr int stages = 2; __shared__ float s[stages][256];
  auto b = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> st; auto p = cuda::make_pipeline(b, &st);
  p.producer_acquire(); cuda::memcpy_async(b, s[0], x, cuda::aligned_size_t<16>(1024), p); p.producer_commit();
  for (int k = 0; k < 4; ++k) {
    if (k + 1 < 4) { p.producer_acquire(); cuda::memcpy_async(b, s[(k + 1) % 2], x + (k + 1) * 256, cuda::aligned_size_t<16>(1024), p); p.producer_commit(); }
    p.consumer_wait(); y[k * 256 + threadIdx.x] = s[k % 2][255 - threadIdx.x]; p.consumer_release();
  }
}
extern "C" __global__ void threadpipe(const float4* x, float4* y) {
  __shared__ float4 s[2][64]; auto p = cuda::make_pipeline();
  p.producer_acquire(); cuda::memcpy_async(&s[0][threadIdx.x], x + threadIdx.x, cuda::aligned_size_t<16>(16), p); p.producer_commit();
  for (int k = 0; k < 4; ++k) {
    if (k < 3) { p.producer_acquire(); cuda::memcpy_async(&s[(k + 1) % 2][threadIdx.x], x + (k + 1) * 64 + threadIdx.x, cuda::aligned_size_t<16>(16), p); p.producer_commit(); cuda::pipeline_consumer_wait_prior<1>(p); }
    else cuda::pipeline_consumer_wait_prior<0>(p);
    __syncthreads(); y[k * 64 + threadIdx.x] = s[k % 2][63 - threadIdx.x]; __syncthreads(); p.consumer_release();
  }
}
extern "C" __global__ void bars(const float* x, float* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ float s[256];
  if (threadIdx.x == 0) init(&bar, 256); __syncthreads();
  s[threadIdx.x] = x[threadIdx.x]; bar.arrive_and_wait(); y[threadIdx.x] = s[255 - threadIdx.x];
  auto t = bar.arrive(); bar.wait(std::move(t)); s[threadIdx.x] = 1; bar.arrive_and_wait(); y[threadIdx.x] += s[(threadIdx.x + 1) % 256];
}
extern "C" __global__ void atom(float* y, unsigned* flag, const float* x) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> f(*flag);
  if (blockIdx.x == 0) { y[threadIdx.x] = x[threadIdx.x] * 2; __syncthreads(); if (threadIdx.x == 0) f.store(1, cuda::memory_order_release); }
  else { if (threadIdx.x == 0) while (f.load(cuda::memory_order_acquire) == 0) {} __syncthreads(); y[256 * blockIdx.x + threadIdx.x] = y[255 - threadIdx.x]; }
}
extern "C" __global__ void halves(const __half2* x, __half2* y, const __nv_bfloat16* b, __nv_bfloat16* c, __nv_fp8_e4m3* f) {
  int i = threadIdx.x; y[i] = __hfma2(x[i], x[i], __hmax2(x[i], h2exp(x[i]))); c[i] = hexp(b[i]) + __float2bfloat16(sqrtf(__bfloat162float(b[i]) + 5)); atomicAdd(&y[0], __half2half2(__float2half(0.f)));
  f[i] = __nv_fp8_e4m3(__bfloat162float(b[i])); 
}

extern "C" __global__ void doubles(const double* x, double* y) { int i = threadIdx.x; y[i] = exp(x[i]) + sin(x[i]) * log(fabs(x[i]) + 1) + pow(fabs(x[i]), 1.5) + erf(x[i]) + tgamma(fabs(x[i]) + 1) + rsqrt(fabs(x[i]) + 1) + cbrt(x[i]); }
extern "C" __global__ void floats(const float* x, float* y) { int i = threadIdx.x; float v = x[i]; y[i] = expf(v) + sinf(v * 1000000.f) + logf(fabsf(v) + 1) + powf(fabsf(v), 1.5f) + erff(v) + tanhf(v) + atan2f(v, 2) + fmodf(v, 0.3f) + rintf(v) + __fdividef(v, 3) + erfcinvf(0.5f) + lgammaf(fabsf(v) + 1) + normcdff(v) + cospif(v) + exp10f(v) + log1pf(fabsf(v)) + expm1f(v) + hypotf(v, 3) + roundf(v) + ldexpf(v, 3); }
