// Correct kernels that use what is hard.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdio>
namespace cg = cooperative_groups;
using u32 = unsigned;

extern "C" __global__ void diverge(const int* x, int* y) {
  int i = threadIdx.x, v = x[i], n = 0;
  while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; ++n; if (n > 200) break; }
  switch (n % 7) { case 0: n += 10; break; case 1: n *= 3; break; case 2: n -= 4; break; case 3: n ^= 5; break; case 4: n = -n; break; default: n <<= 1; }
  y[i] = n;
}
__device__ __noinline__ float twice(float x, float* out) { *out = x * 2; return x * 4; }
__device__ __noinline__ float outer(float x) { float t; float r = twice(x, &t); return r + t; }
extern "C" __global__ void calls(const float* x, float* y) { int i = threadIdx.x; y[i] = i % 3 ? outer(x[i]) : outer(x[i] + 1) + 1; }
typedef float (*Function)(float);
__device__ float plus(float x) { return x + 1; }
__device__ float minus(float x) { return x - 1; }
__device__ Function table[2] = {plus, minus};
extern "C" __global__ void indirect(const float* x, float* y) { int i = threadIdx.x; y[i] = table[i & 1](x[i]); }
extern "C" __global__ void shuffles(int* y) {
  int l = threadIdx.x;
  y[l] = __shfl_sync(~0u, l * 10, 5); y[32 + l] = __shfl_up_sync(~0u, l, 3); y[64 + l] = __shfl_down_sync(~0u, l, 4, 8);
  y[96 + l] = __shfl_xor_sync(~0u, l, 9); y[128 + l] = __ballot_sync(~0u, l % 3 == 0); y[160 + l] = __reduce_add_sync(~0u, l);
  y[192 + l] = __match_any_sync(~0u, l / 5); y[224 + l] = __any_sync(~0u, l == 7) + 2 * __all_sync(~0u, l < 31);
  if (l & 1) y[256 + l] = __shfl_sync(0xaaaaaaaau, l, 9); else y[256 + l] = __activemask();
  y[288 + l] = __reduce_max_sync(~0u, l ^ 21);
}
extern "C" __global__ void lastblock(const float* x, float* partial, float* out, u32* counter, int n) {
  __shared__ float s[256];
  __shared__ bool last;
  int t = threadIdx.x;
  float v = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
  s[t] = v;
  __syncthreads();
  for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  if (t == 0) { partial[blockIdx.x] = s[0]; __threadfence(); last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1; }
  __syncthreads();
  if (last) {
    s[t] = t < gridDim.x ? partial[t] : 0;
    __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) { *out = s[0]; *counter = 0; }
  }
}
extern "C" __global__ void lookback(const int* x, int* y, volatile int* flag, volatile int* prefix) {
  __shared__ int base;
  __shared__ int s[256];
  int t = threadIdx.x, b = blockIdx.x;
  s[t] = x[b * 256 + t];
  __syncthreads();
  for (int d = 1; d < 256; d <<= 1) { int v = t >= d ? s[t - d] : 0; __syncthreads(); s[t] += v; __syncthreads(); }
  if (t == 0) {
    int before = 0;
    if (b) { while (flag[b - 1] == 0) {} __threadfence(); before = prefix[b - 1]; }
    prefix[b] = before + s[255];
    __threadfence();
    flag[b] = 1;
    base = before;
  }
  __syncthreads();
  y[b * 256 + t] = s[t] + base;
}
extern "C" __global__ void gridsync(float* a, float* b, int n) {
  auto g = cg::this_grid();
  for (int k = 0; k < 4; ++k) {
    for (int i = g.thread_rank(); i < n; i += g.size()) b[i] = a[(i + 1) % n] + 1;
    g.sync();
    for (int i = g.thread_rank(); i < n; i += g.size()) a[i] = b[(i + 7) % n];
    g.sync();
  }
}
extern "C" __global__ void spinlock(int* lock, int* value) {
  for (int done = 0; !done;)
    if (atomicCAS(lock, 0, 1) == 0) { __threadfence(); *value += 1; __threadfence(); atomicExch(lock, 0); done = 1; }
}
extern "C" __global__ void named(const int* x, int* y) {  // a producer and a consumer warp, two named barriers
  __shared__ int s[32];
  int l = threadIdx.x % 32, w = threadIdx.x / 32;
  for (int k = 0; k < 4; ++k) {
    if (w == 0) {
      if (k) asm volatile("bar.sync 2, 64;" ::: "memory");
      s[l] = x[k * 32 + l] * 2;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      y[k * 32 + l] = s[31 - l];
      if (k < 3) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}
extern "C" __global__ void earlyexit(const int* x, int* y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  __syncthreads();
  y[i] = x[i] + __syncthreads_count(x[i] > 3);
}
extern "C" __global__ void async(const float* x, float* y, int tiles) {  // double buffered
  __shared__ float4 s[2][64];
  auto issue = [&](int k) {
    u32 to = (u32)__cvta_generic_to_shared(&s[k & 1][threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"((const float4*)x + k * 64 + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  issue(0);
  for (int k = 0; k < tiles; ++k) {
    if (k + 1 < tiles) { issue(k + 1); asm volatile("cp.async.wait_group 1;" ::: "memory"); }
    else asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    float4 v = s[k & 1][63 - threadIdx.x];
    ((float4*)y)[k * 64 + threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
    __syncthreads();
  }
}
extern "C" __global__ void tensor(const half* a, const half* b, float* c) {  // 16x16 times 16x8 by ldmatrix and mma
  __shared__ half sa[16][16];
  __shared__ half sb[16][8];
  int l = threadIdx.x;
  for (int i = l; i < 256; i += 32) sa[i / 16][i % 16] = a[i];
  for (int i = l; i < 128; i += 32) sb[i / 8][i % 8] = b[i];
  __syncwarp();
  u32 ra[4], rb[2];
  u32 pa = (u32)__cvta_generic_to_shared(&sa[l % 16][l / 16 * 8]), pb = (u32)__cvta_generic_to_shared(&sb[l % 16][0]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = d[i];
}
extern "C" __global__ void tf32(const float* a, const float* b, float* c) {  // 16x8 times 8x8
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  float d[4] = {0, 0, 0, 0};
  u32 ra[4], rb[2];
  const float fa[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]}, fb[2] = {b[t * 8 + g], b[(t + 4) * 8 + g]};
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[i]) : "f"(fa[i]));
  for (int i = 0; i < 2; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rb[i]) : "f"(fb[i]));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}
extern "C" __global__ void fragments(const half* a, const half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.5f);
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, b, 16);
  mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  store_matrix_sync(c, fc, 16, mem_row_major);
}
extern "C" __global__ void print(int n) { if (threadIdx.x == 3) printf("n=%d x=%.2f s=%s %5lld%%\n", n, 1.5, "hello", 1234567890123ll); }
extern "C" __global__ void warpexchange(int* y) {  // shared memory with __syncwarp only
  __shared__ int s[64];
  int w = threadIdx.x / 32 * 32, l = threadIdx.x % 32;
  s[w + l] = l;
  __syncwarp();
  int v = s[w + 31 - l];
  __syncwarp();
  s[w + l] = v * 2;
  __syncwarp();
  y[threadIdx.x] = s[w + (l + 1) % 32];
}
extern "C" __global__ void histogram(const unsigned char* x, u32* bins, int n) {
  __shared__ u32 s[256];
  s[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&s[x[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}
extern "C" __global__ void sameflag(const int* x, int* found) { if (x[blockIdx.x * 32 + threadIdx.x] == 7) *found = 1; }
extern "C" __global__ void barrierpipe(const int* x, int* y) {  // mbarrier: all threads arrive and wait
  __shared__ unsigned long long bar;
  __shared__ int s[64];
  u32 p = (u32)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(p) : "memory");
  __syncthreads();
  for (u32 k = 0; k < 3; ++k) {
    s[threadIdx.x] = x[threadIdx.x] + k;
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(p) : "memory");
    asm volatile("{ .reg .pred q; W: mbarrier.try_wait.parity.shared.b64 q, [%0], %1; @!q bra W; }" :: "r"(p), "r"(k & 1) : "memory");
    int v = s[63 - threadIdx.x];
    __syncthreads();
    y[k * 64 + threadIdx.x] = v;
  }
}
extern "C" __global__ void semaphore(int* lock, float* c, const float* x) {  // split-K: blocks add in turn
  int k = blockIdx.x;
  if (threadIdx.x == 0) while (atomicAdd(lock, 0) != k) __nanosleep(20);
  __syncthreads();
  __threadfence();
  c[threadIdx.x] += x[k * 64 + threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicExch(lock, k + 1);
}

// Two threads read; the second learns that the first has, and writes.
extern "C" __global__ void read_then_told(int* x, int* flag, int* y) {
  if (threadIdx.x == 0) { y[0] = x[0]; __threadfence_block(); atomicExch(flag, 1); }
  if (threadIdx.x == 32) {
    int v = x[0];
    while (atomicAdd(flag, 0) == 0) {}
    __threadfence_block();
    x[0] = v + 1;
  }
}
