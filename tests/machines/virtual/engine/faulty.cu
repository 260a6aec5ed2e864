// Faulty kernels and their repaired twins; `FAULT name` ends the line where the finding must lie.
#include <cooperative_groups.h>
#include <cassert>
#define KERNEL(name) template <bool bad> __device__ __forceinline__ void name(float* x, float* y, int n)
#define BOTH(name) extern "C" __global__ void name##_bad(float* x, float* y, int n) { name<true>(x, y, n); } \
                   extern "C" __global__ void name##_good(float* x, float* y, int n) { name<false>(x, y, n); }
// ---- out_of_bounds
KERNEL(past_end) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (bad || i < n)
  y[i] = 1; // FAULT past_end
}
BOTH(past_end)
KERNEL(before_start) { int i = threadIdx.x; y[i] =
  x[i - (bad || i > 0)]; // FAULT before_start
}
BOTH(before_start)
KERNEL(shared_over) { __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads(); if (!bad && threadIdx.x == 63) return; y[threadIdx.x] =
  s[threadIdx.x + 1]; // FAULT shared_over
}
BOTH(shared_over)
KERNEL(null_pointer) { float* p = bad ? (float*)(size_t)(n - 64) : y;
  p[threadIdx.x] = 3; // FAULT null_pointer
}
BOTH(null_pointer)
KERNEL(vector_over) { float4* p = (float4*)y; if (bad || threadIdx.x < n / 4)
  p[threadIdx.x] = make_float4(1, 2, 3, 4); // FAULT vector_over
}
BOTH(vector_over)
// ---- misaligned
KERNEL(odd_vector) { float4* p = (float4*)(x + bad);
  float4 v = p[threadIdx.x % 8]; y[threadIdx.x] = v.x + v.y + v.z + v.w; // FAULT odd_vector
}
BOTH(odd_vector)
KERNEL(odd_store) { double* p = (double*)(y + bad);
  p[threadIdx.x % 8] = 2; // FAULT odd_store
}
BOTH(odd_store)
KERNEL(odd_shared) { __shared__ float s[160]; float2* p = (float2*)(s + bad);
  p[threadIdx.x] = make_float2(n, threadIdx.x); // FAULT odd_shared
  __syncthreads(); y[threadIdx.x] = s[63 - threadIdx.x + bad]; }
BOTH(odd_shared)
KERNEL(odd_byte) { int* p = (int*)((char*)x + bad);
  ((int*)y)[threadIdx.x] = p[threadIdx.x % 16]; // FAULT odd_byte
}
BOTH(odd_byte)
KERNEL(odd_atomic) { int* p = (int*)((char*)y + 2 * bad);
  atomicAdd(p, 1); // FAULT odd_atomic
}
BOTH(odd_atomic)
// ---- uninitialized
KERNEL(fresh_shared) { __shared__ float s[64]; if (!bad) s[threadIdx.x] = 1; else s[0] = 1; __syncthreads();
  y[threadIdx.x] = s[threadIdx.x]; // FAULT fresh_shared
}
BOTH(fresh_shared)
KERNEL(half_shared) { __shared__ float s[64]; if (threadIdx.x < (bad ? 32 : 64)) s[threadIdx.x] = 1; __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x]; // FAULT half_shared
}
BOTH(half_shared)
KERNEL(fresh_global) { if (!bad) y[threadIdx.x] = 0;
  y[threadIdx.x] += x[threadIdx.x]; // FAULT fresh_global
}
BOTH(fresh_global)
KERNEL(fresh_atomic) { if (!bad) y[threadIdx.x] = 0;
  float v = y[threadIdx.x]; y[threadIdx.x] = v + 1; // FAULT fresh_atomic
}
BOTH(fresh_atomic)
KERNEL(fresh_dynamic) { extern __shared__ float d[]; if (!bad || threadIdx.x) d[threadIdx.x] = 1; __syncthreads();
  y[threadIdx.x] = d[threadIdx.x / 2]; // FAULT fresh_dynamic
}
BOTH(fresh_dynamic)
// ---- race
KERNEL(no_barrier) { __shared__ float s[64]; s[threadIdx.x] = threadIdx.x; if (!bad) __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x]; // FAULT no_barrier
}
BOTH(no_barrier)
KERNEL(no_warp_barrier) { __shared__ float s[32]; if (threadIdx.x >= 32) return; s[threadIdx.x] = threadIdx.x; if (!bad) __syncwarp();
  y[threadIdx.x] = s[31 - threadIdx.x]; // FAULT no_warp_barrier
}
BOTH(no_warp_barrier)
KERNEL(reuse) { __shared__ float s[64]; float sum = 0; for (int k = 0; k < 3; ++k) {
    s[threadIdx.x] = x[threadIdx.x] + k; // FAULT reuse
    __syncthreads(); sum += s[(threadIdx.x + 7) % 64]; if (!bad) __syncthreads(); }
  y[threadIdx.x] = sum; }
BOTH(reuse)
KERNEL(neighbour_block) { int i = blockIdx.x * 64 + threadIdx.x; float v = x[i] + (bad || threadIdx.x < 63 ? x[(i + 1) % n] : 0); __syncthreads();
  x[i] = v; // FAULT neighbour_block
}
BOTH(neighbour_block)
KERNEL(read_by_two) { if (threadIdx.x == 0) y[0] = x[0]; if (!bad) __syncthreads(); if (threadIdx.x == 32) { float v = x[0];
    x[0] = v + 1; } // FAULT read_by_two
}
BOTH(read_by_two)
KERNEL(read_by_all) { float v = x[0]; if (!bad) __syncthreads(); if (threadIdx.x == 0)
    x[0] = v + 1; // FAULT read_by_all
  y[threadIdx.x] = v; }
BOTH(read_by_all)
KERNEL(everyone_adds) { if (bad)
    y[0] = y[1] + threadIdx.x; // FAULT everyone_adds
  else atomicAdd(y, 1.f); }
BOTH(everyone_adds)
KERNEL(unfenced_last) { __shared__ bool last; if (threadIdx.x == 0) { y[4 + blockIdx.x] = 1; if (!bad) __threadfence(); last = atomicAdd((int*)y, 1) == gridDim.x - 1; }
  __syncthreads(); if (last && threadIdx.x == 0) { if (!bad) __threadfence(); float s = 0; for (int i = 0; i < gridDim.x; ++i)
    s += ((volatile float*)y)[4 + i]; // FAULT unfenced_last
    y[1] = s; } }
BOTH(unfenced_last)
KERNEL(forgotten_wait) { __shared__ float4 s[64]; unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"((float4*)x + threadIdx.x % 16) : "memory"); asm volatile("cp.async.commit_group;" ::: "memory");
  if (!bad) asm volatile("cp.async.wait_group 0;" ::: "memory"); __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x].x; // FAULT forgotten_wait
}
BOTH(forgotten_wait)
// Both warps of the block multiply; the second fills the tile again before the product is waited for.
KERNEL(reused_tile) { __shared__ __align__(128) float s[576]; __shared__ float sum[64]; int t = threadIdx.x;
  for (int i = t; i < 576; i += 64) s[i] = x[i % 128]; __syncthreads();
  unsigned long long at = __cvta_generic_to_shared(s), a = 8ull << 16 | 16ull << 32 | at >> 4; float d[4] = {};
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0,%1,%2,%3}, %4, %5, p, 1, 1; }" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(a + 128)); // FAULT reused_tile
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (!bad) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  __syncthreads(); if (t >= 32) s[512 + t - 32] = t; sum[t] = d[0] + d[3];
  if (bad) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  __syncthreads(); y[t] = sum[63 - t]; }
BOTH(reused_tile)
// ---- barrier
KERNEL(half_block) { __shared__ float s[64]; s[threadIdx.x] = 1; if (!bad || threadIdx.x < 16)
  asm volatile("bar.sync 0;" ::: "memory"); // FAULT half_block
  y[threadIdx.x] = 0; asm volatile("bar.sync 0;" ::: "memory");
  y[threadIdx.x] = s[threadIdx.x]; }
BOTH(half_block)
KERNEL(two_barriers) { if (!bad || threadIdx.x < 32)
  asm volatile("bar.sync 3;" ::: "memory"); // FAULT two_barriers
  else
  asm volatile("bar.sync 4;" ::: "memory"); // FAULT two_barriers
  y[threadIdx.x] = 1; }
BOTH(two_barriers)
KERNEL(diverged) { if (bad) { if (threadIdx.x & 1) { y[threadIdx.x] = 2;
    asm volatile("bar.sync 0;" ::: "memory"); } // FAULT diverged
    else { asm volatile("bar.sync 0;" ::: "memory"); y[threadIdx.x] = 1; } } // FAULT diverged
  else { y[threadIdx.x] = 2; __syncthreads(); } }
BOTH(diverged)
KERNEL(odd_count) { if (bad)
  asm volatile("bar.sync 1, %0;" :: "r"(n - 16) : "memory"); // FAULT odd_count
  y[threadIdx.x] = 1; }
BOTH(odd_count)
// ---- shuffle
KERNEL(absent_lane) { if (bad && threadIdx.x % 32 >= 16) return;
  y[threadIdx.x] = __shfl_down_sync(bad ? 0xffffu : ~0u, x[threadIdx.x], 8); // FAULT absent_lane
}
BOTH(absent_lane)
KERNEL(own_bit) { int l = threadIdx.x % 32; unsigned m = bad && l >= 16 ? 0xffffu : ~0u;
  y[threadIdx.x] = __shfl_xor_sync(m, x[threadIdx.x], 1); // FAULT own_bit
}
BOTH(own_bit)
KERNEL(diverged_mask) { if (threadIdx.x % 32 < 16 || !bad)
  y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); // FAULT diverged_mask
  else { y[threadIdx.x] = 2; __syncthreads(); }
  if (bad && threadIdx.x % 32 < 16) __syncthreads(); }
BOTH(diverged_mask)
// ---- endless and trap
KERNEL(for_ever) { int k = 0; volatile float* p = x;
  while (bad ? p[0] >= -1e9f : k < 9) ++k; // FAULT for_ever
  y[threadIdx.x] = k; }
BOTH(for_ever)
KERNEL(asserting) {
  assert(!bad || threadIdx.x != 5); // FAULT asserting
  y[threadIdx.x] = 1; }
BOTH(asserting)
KERNEL(trapping) { if (bad && threadIdx.x == 7)
  __trap(); // FAULT trapping
  y[threadIdx.x] = 1; }
BOTH(trapping)
