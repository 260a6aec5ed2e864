// Causal attention, FlashAttention style: a block has a tile of queries and walks over tiles of keys and values that
// arrive in the background, with a running maximum and sum; scores and shares stay in registers. 16-bit types multiply
// by warp groups (wgmma) where the width is a multiple of 8, else by m16n8k16; float32 by three TF32 products of split
// numbers, summed in short chains since the tensor core truncates.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

#include <algorithm>

// Heads whose tiles run together.
#ifndef GROUP
#define GROUP 16
#endif
// 16-bit: keys of a tile.
#ifndef KEYS16
#define KEYS16 64
#endif
// How 16-bit heads of a width that is a multiple of 8 are done. 0: warps load fragments themselves (mma.sync). 1: warp groups multiply
// straight from shared memory that the copy engine fills (wgmma, TMA).
// tune: STRATEGY = 1 [0, 1]
#ifndef STRATEGY
#define STRATEGY 1
#endif
// Whether the two warp groups of STRATEGY 1 take turns at the tensor cores.
// tune: TURNS = 1 [0, 1]
#ifndef TURNS
#define TURNS 1
#endif
// Shorter sequences are not worth STRATEGY 1's set-up.
#ifndef GROUPS_SEQ
#define GROUPS_SEQ 128
#endif
// Multiprocessors: STRATEGY 1 has one block for each, which takes tile after tile.
#ifndef PROCESSORS
#define PROCESSORS 132
#endif
// float32: warps of a block (16 queries each). 4: two blocks on a multiprocessor; 8: one, and half of the key traffic.
// tune: WARPS32 = 4 [4, 8]
#ifndef WARPS32
#define WARPS32 4
#endif

namespace {

// ---- copies to shared memory and tensor-core products -------------------------------------------------------------

__device__ __forceinline__ unsigned smem_of(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// 16 bytes to shared memory in the background; zeros where not `inside` (nothing is read then).
__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_of(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_of(p))
               : "memory");
}
__device__ __forceinline__ void ldmatrix4_trans(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_of(p))
               : "memory");
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A float32 as the sum of two TF32 numbers, exact to about 2^-21: the nearest one and what is left of it (the tensor core
// does not look at the 13 lowest bits). Three products of the parts then give the float32 product to about its roundoff.
__device__ __forceinline__ void split(unsigned x, unsigned& big, unsigned& small) {
  big = (x + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(__uint_as_float(x) - __uint_as_float(big));
}
template <int N>
__device__ __forceinline__ void split(const unsigned (&x)[N], unsigned (&big)[N], unsigned (&small)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) split(x[i], big[i], small[i]);
}
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ unsigned pack(float a, float b, __half) {
  const __half2 both = __floats2half2_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&both);
}
__device__ __forceinline__ unsigned pack(float a, float b, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<const unsigned*>(&both);
}
__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void put(float* to, float x) { *to = x; }
__device__ __forceinline__ void put(__half* to, float x) { *to = __float2half_rn(x); }
__device__ __forceinline__ void put(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }

// Rows of a head to shared memory, zeros past the end and past the head's width. With Vec a row is a whole number of
// 16-byte pieces, copied in the background; else element by element.
template <int Rows, int D, int Pitch, int Threads, bool Vec, typename T>
__device__ __forceinline__ void load_rows(T* to, const T* head, int row0, int seq, int dim) {
  if constexpr (Vec) {
    constexpr int each = 16 / sizeof(T), across = D / each;
#pragma unroll
    for (int i = threadIdx.x; i < Rows * across; i += Threads) {
      const int row = i / across, col = i % across * each;
      const bool inside = row0 + row < seq && col < dim;
      copy16(to + row * Pitch + col, inside ? head + static_cast<int64_t>(row0 + row) * dim + col : head, inside);
    }
  } else {
    for (int i = threadIdx.x; i < Rows * D; i += Threads) {
      const int row = i / D, col = i % D;
      const bool inside = row0 + row < seq && col < dim;
      T value;
      put(&value, 0.0f);
      if (inside) value = head[static_cast<int64_t>(row0 + row) * dim + col];
      to[row * Pitch + col] = value;
    }
  }
}

// Which head and which tile of rows a block has: GROUP heads run together, so that their keys and values stay in the
// L2, and in a group the tiles come in order of `first` (the longest first).
struct Job {
  int64_t head;
  int tile;
};
__device__ __forceinline__ Job job_of(int heads, int tiles) {
  const int per = GROUP * tiles, group = blockIdx.x / per, within = blockIdx.x % per;
  const int wide = min(GROUP, heads - group * GROUP);
  return {static_cast<int64_t>(group) * GROUP + within % wide, within / wide};
}

constexpr float kLog2e = 1.4426950408889634f;

template <typename T>
struct Heads {
  const T *q, *k, *v;
  T* out;
  int heads, seq, dim, tiles;
  float scale;  // 1/sqrt(dim) · log2(e): shares are powers of two
};

// 16-bit. Four warps of 32 queries: each key fragment read from shared memory serves two products.
template <typename T, int D, bool Vec>
__global__ __launch_bounds__(128) void flash16(Heads<T> h) {
  constexpr int BM = 128, BN = KEYS16, P = D + 8, MT = 2, NT = BN / 8, DT = D / 8;
  extern __shared__ __align__(16) unsigned char room[];
  T* const qs = reinterpret_cast<T*>(room);
  T* const ks = qs + BM * P;
  T* const vs = ks + 2 * BN * P;
  const Job job = job_of(h.heads, h.tiles);
  const int q0 = (h.tiles - 1 - job.tile) * BM, seq = h.seq, dim = h.dim;
  const int64_t first = job.head * seq * dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = q0 + warp * 32;  // this warp's first query

  load_rows<BM, D, P, 128, Vec>(qs, h.q + first, q0, seq, dim);
  load_rows<BN, D, P, 128, Vec>(ks, h.k + first, 0, seq, dim);
  load_rows<BN, D, P, 128, Vec>(vs, h.v + first, 0, seq, dim);
  copies_commit();

  float o[MT][DT][4] = {}, top[MT][2], sum[MT][2] = {};
#pragma unroll
  for (int m = 0; m < MT; ++m) top[m][0] = top[m][1] = -INFINITY;

  const int tiles = (min(q0 + BM, seq) + BN - 1) / BN;
  for (int j = 0; j < tiles; ++j) {
    const int key0 = j * BN;
    copies_wait<0>();
    __syncthreads();  // tile j is here, and nobody reads the other buffers any more
    if (j + 1 < tiles) {
      load_rows<BN, D, P, 128, Vec>(ks + (j + 1) % 2 * BN * P, h.k + first, key0 + BN, seq, dim);
      load_rows<BN, D, P, 128, Vec>(vs + (j + 1) % 2 * BN * P, h.v + first, key0 + BN, seq, dim);
    }
    copies_commit();
    if (key0 > row0 + 31) continue;  // all of it lies ahead of this warp's queries
    const T* const kt = ks + j % 2 * BN * P;
    const T* const vt = vs + j % 2 * BN * P;

    float s[MT][NT][4] = {};
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk) {
      unsigned a[MT][4];
#pragma unroll
      for (int m = 0; m < MT; ++m) ldmatrix4(a[m], qs + (warp * 32 + m * 16 + lane % 16) * P + kk * 16 + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < NT; n += 2) {
        unsigned b[4];
        ldmatrix4(b, kt + (n * 8 + lane % 8 + lane / 16 * 8) * P + kk * 16 + lane / 8 % 2 * 8);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma(s[m][n], a[m], b[0], b[1], T());
          mma(s[m][n + 1], a[m], b[2], b[3], T());
        }
      }
    }
    if (key0 + BN - 1 > row0) {
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (key0 + n * 8 + t * 2 + i % 2 > row0 + m * 16 + g + i / 2 * 8) s[m][n][i] = -INFINITY;
    }

    unsigned p[MT][NT / 2][4];
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float next = top[m][half];
#pragma unroll
        for (int n = 0; n < NT; ++n) next = fmaxf(next, fmaxf(s[m][n][half * 2], s[m][n][half * 2 + 1]));
        next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 1));
        next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 2));
        const float shift = next * h.scale, shrink = exp2_fast(top[m][half] * h.scale - shift);
        top[m][half] = next;
        float part = 0.0f;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const float x = exp2_fast(fmaf(s[m][n][half * 2], h.scale, -shift));
          const float y = exp2_fast(fmaf(s[m][n][half * 2 + 1], h.scale, -shift));
          part += x + y;
          p[m][n / 2][n % 2 * 2 + half] = pack(x, y, T());
        }
        sum[m][half] = sum[m][half] * shrink + part;
#pragma unroll
        for (int d = 0; d < DT; ++d) {
          o[m][d][half * 2] *= shrink;
          o[m][d][half * 2 + 1] *= shrink;
        }
      }

#pragma unroll
    for (int kk = 0; kk < BN / 16; ++kk)
#pragma unroll
      for (int d = 0; d < DT; d += 2) {
        unsigned b[4];
        ldmatrix4_trans(b, vt + (kk * 16 + lane % 16) * P + d * 8 + lane / 16 * 8);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma(o[m][d], p[m][kk], b[0], b[1], T());
          mma(o[m][d + 1], p[m][kk], b[2], b[3], T());
        }
      }
  }

#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = sum[m][half];
      all += __shfl_xor_sync(0xffffffffu, all, 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      const int row = row0 + m * 16 + g + half * 8;
      if (row >= seq) continue;
      const float inverse = 1.0f / all;
      T* const to = h.out + first + static_cast<int64_t>(row) * dim;
#pragma unroll
      for (int d = 0; d < DT; ++d) {
        const int col = d * 8 + t * 2;
        const float x = o[m][d][half * 2] * inverse, y = o[m][d][half * 2 + 1] * inverse;
        if constexpr (Vec) {
          if (col < dim) *reinterpret_cast<unsigned*>(to + col) = pack(x, y, T());
        } else {
          if (col < dim) put(to + col, x);
          if (col + 1 < dim) put(to + col + 1, y);
        }
      }
    }
}

// float32. A warp has 16 queries. Sums of 32 products at a time, big and mixed parts apart, are added in float32.
template <int D, bool Vec>
__global__ __launch_bounds__(WARPS32 * 32) void flash32(Heads<float> h) {
  constexpr int BM = WARPS32 * 16, BN = 32, P = D + 4, NT = BN / 8, DT = D / 8, Threads = WARPS32 * 32;
  extern __shared__ __align__(16) unsigned char room[];
  float* const qs = reinterpret_cast<float*>(room);
  float* const ks = qs + BM * P;
  float* const vs = ks + 2 * BN * P;
  const Job job = job_of(h.heads, h.tiles);
  const int q0 = (h.tiles - 1 - job.tile) * BM, seq = h.seq, dim = h.dim;
  const int64_t first = job.head * seq * dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = q0 + warp * 16;

  load_rows<BM, D, P, Threads, Vec>(qs, h.q + first, q0, seq, dim);
  load_rows<BN, D, P, Threads, Vec>(ks, h.k + first, 0, seq, dim);
  load_rows<BN, D, P, Threads, Vec>(vs, h.v + first, 0, seq, dim);
  copies_commit();

  float o[DT][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const int tiles = (min(q0 + BM, seq) + BN - 1) / BN;
  for (int j = 0; j < tiles; ++j) {
    const int key0 = j * BN;
    copies_wait<0>();
    __syncthreads();
    if (j + 1 < tiles) {
      load_rows<BN, D, P, Threads, Vec>(ks + (j + 1) % 2 * BN * P, h.k + first, key0 + BN, seq, dim);
      load_rows<BN, D, P, Threads, Vec>(vs + (j + 1) % 2 * BN * P, h.v + first, key0 + BN, seq, dim);
    }
    copies_commit();
    if (key0 > row0 + 15) continue;
    const float* const kt = ks + j % 2 * BN * P;
    const float* const vt = vs + j % 2 * BN * P;

    float s[NT][4] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < D; chunk += 32) {
      unsigned big[4][4], small[4][4];
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        unsigned a[4];
        ldmatrix4(a, qs + (warp * 16 + lane % 16) * P + chunk + kk * 8 + lane / 16 * 4);
        split(a, big[kk], small[kk]);
      }
#pragma unroll
      for (int n = 0; n < NT; n += 2) {
        float high[2][4] = {}, mixed[2][4] = {};
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
          unsigned b[4];  // two tiles of 8 keys, each as (k 0..3, k 4..7)
          ldmatrix4(b, kt + (n * 8 + lane % 8 + lane / 16 * 8) * P + chunk + kk * 8 + lane / 8 % 2 * 4);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const unsigned both[2] = {b[i * 2], b[i * 2 + 1]};
            unsigned b_big[2], b_small[2];
            split(both, b_big, b_small);
            mma_tf32(mixed[i], small[kk], b_big);
            mma_tf32(mixed[i], big[kk], b_small);
            mma_tf32(high[i], big[kk], b_big);
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) s[n + i / 4][i % 4] += high[i / 4][i % 4] + mixed[i / 4][i % 4];
      }
    }
    if (key0 + BN - 1 > row0) {
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (key0 + n * 8 + t * 2 + i % 2 > row0 + g + i / 2 * 8) s[n][i] = -INFINITY;
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float next = top[half];
#pragma unroll
      for (int n = 0; n < NT; ++n) next = fmaxf(next, fmaxf(s[n][half * 2], s[n][half * 2 + 1]));
      next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 1));
      next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 2));
      const float shrink = exp2_fast((top[half] - next) * h.scale);
      top[half] = next;
      float part = 0.0f;
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[n][half * 2 + i] = exp2_fast((s[n][half * 2 + i] - next) * h.scale);
          part += s[n][half * 2 + i];
        }
      sum[half] = sum[half] * shrink + part;
#pragma unroll
      for (int d = 0; d < DT; ++d) {
        o[d][half * 2] *= shrink;
        o[d][half * 2 + 1] *= shrink;
      }
    }

    // Shares as a left operand without a shuffle: column t of the product is key 2t, column t + 4 is key 2t + 1.
    unsigned p_big[NT][4], p_small[NT][4];
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const unsigned a[4] = {__float_as_uint(s[n][0]), __float_as_uint(s[n][2]), __float_as_uint(s[n][1]),
                             __float_as_uint(s[n][3])};
      split(a, p_big[n], p_small[n]);
    }
#pragma unroll
    for (int d = 0; d < DT; d += 2) {
      float high[2][4] = {}, mixed[2][4] = {};
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float* const at = vt + (n * 8 + t * 2) * P + (d + i) * 8 + g;
          const unsigned both[2] = {__float_as_uint(at[0]), __float_as_uint(at[P])};
          unsigned b_big[2], b_small[2];
          split(both, b_big, b_small);
          mma_tf32(mixed[i], p_small[n], b_big);
          mma_tf32(mixed[i], p_big[n], b_small);
          mma_tf32(high[i], p_big[n], b_big);
        }
#pragma unroll
      for (int i = 0; i < 8; ++i) o[d + i / 4][i % 4] += high[i / 4][i % 4] + mixed[i / 4][i % 4];
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float all = sum[half];
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    all += __shfl_xor_sync(0xffffffffu, all, 2);
    const int row = row0 + g + half * 8;
    if (row >= seq) continue;
    const float inverse = 1.0f / all;
    float* const to = h.out + first + static_cast<int64_t>(row) * dim;
#pragma unroll
    for (int d = 0; d < DT; ++d) {
      const int col = d * 8 + t * 2;
      const float x = o[d][half * 2] * inverse, y = o[d][half * 2 + 1] * inverse;
      if constexpr (Vec) {
        if (col < dim) *reinterpret_cast<float2*>(to + col) = make_float2(x, y);
      } else {
        if (col < dim) to[col] = x;
        if (col + 1 < dim) to[col + 1] = y;
      }
    }
  }
}

// ---- 16-bit by warp groups ----------------------------------------------------------------------------------------
// Two groups of four warps have 64 queries each and multiply straight from shared memory (wgmma); one thread of a third
// group has the copy engine bring queries, keys and values, 64 elements of the width to a 128-byte row, swizzled, with
// zeros past the width (at most D). Tiles of
// keys come from the diagonal backwards, so that only the first one needs a mask. A group starts the scores of the next
// tile and the outcome of the last before it takes exponentials, and the two groups take turns at the tensor cores.
#if STRATEGY == 1

#define LIST_32                                                                \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16," \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_64                                                                        \
  LIST_32                                                                              \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FOUR(kind, d, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define SIXTEEN(kind, d, i) FOUR(kind, d, i), FOUR(kind, d, i + 4), FOUR(kind, d, i + 8), FOUR(kind, d, i + 12)
#define ALL_32(kind, d) SIXTEEN(kind, d, 0), SIXTEEN(kind, d, 16)
#define ALL_64(kind, d) ALL_32(kind, d), SIXTEEN(kind, d, 32), SIXTEEN(kind, d, 48)

// d (64 x N) = or += a (64 x 16) · bᵀ (N x 16), both in shared memory, rows along the sum.
#define PRODUCT(type, n, list, at_a, at_b, at_keep, keep, all)                                                           \
  asm volatile("{ .reg .pred keep; setp.ne.b32 keep, " at_keep ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
               "." type " {" list "}, " at_a ", " at_b ", keep, 1, 1, 0, 0; }"                                            \
               : all                                                                                                     \
               : "l"(a), "l"(b), "n"(keep))
template <bool Keep, typename T>
__device__ __forceinline__ void product(float (&d)[64], uint64_t a, uint64_t b) {
  if constexpr (Keep && std::is_same_v<T, __half>)
    PRODUCT("f16", "128", LIST_64, "%64", "%65", "%66", 1, ALL_64("+f", d));
  else if constexpr (Keep)
    PRODUCT("bf16", "128", LIST_64, "%64", "%65", "%66", 1, ALL_64("+f", d));
  else if constexpr (std::is_same_v<T, __half>)
    PRODUCT("f16", "128", LIST_64, "%64", "%65", "%66", 0, ALL_64("=f", d));
  else
    PRODUCT("bf16", "128", LIST_64, "%64", "%65", "%66", 0, ALL_64("=f", d));
}
#undef PRODUCT

// d (64 x N) += a (64 x 16, in registers) · b (16 x N), b in shared memory, rows across the sum.
#define PRODUCT(type, n, list, at_a, at_b, all)                                                                   \
  asm volatile("{ .reg .pred keep; setp.eq.b32 keep, 0, 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type \
               " {" list "}, {" at_a "}, " at_b ", keep, 1, 1, 1; }"                                              \
               : all                                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <typename T>
__device__ __forceinline__ void product_of(float (&d)[64], const unsigned (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __half>)
    PRODUCT("f16", "128", LIST_64, "%64, %65, %66, %67", "%68", ALL_64("+f", d));
  else
    PRODUCT("bf16", "128", LIST_64, "%64, %65, %66, %67", "%68", ALL_64("+f", d));
}
template <typename T>
__device__ __forceinline__ void product_of(float (&d)[32], const unsigned (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __half>)
    PRODUCT("f16", "64", LIST_32, "%32, %33, %34, %35", "%36", ALL_32("+f", d));
  else
    PRODUCT("bf16", "64", LIST_32, "%32, %33, %34, %35", "%36", ALL_32("+f", d));
}
#undef PRODUCT

// Registers are as they shall be before products start; the products up to here are one group; all but Left groups done.
__device__ __forceinline__ void products_start() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// 64 elements of the width by a box's rows of a head, to shared memory.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t ready, int col, int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(ready), "r"(col), "r"(row), "r"(head)
      : "memory");
}
template <typename T>
CUtensorMap map_of(const T* at, int dim, int seq, int heads, int rows) {
  warpsmith::TiledMap kind;
  kind.data_type = std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  kind.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  kind.l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  const uint64_t sizes[3] = {static_cast<uint64_t>(dim), static_cast<uint64_t>(seq), static_cast<uint64_t>(heads)};
  const uint64_t strides[2] = {sizes[0] * sizeof(T), sizes[0] * sizes[1] * sizeof(T)};
  const uint32_t box[3] = {64, static_cast<uint32_t>(rows), 1}, steps[3] = {1, 1, 1};
  return warpsmith::encode_tiled(kind, 3, const_cast<T*>(at), sizes, strides, box, steps);
}
template <int Registers>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
__device__ __forceinline__ void expect(uint32_t at, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_begun(uint32_t) {}

__device__ __forceinline__ void make_barrier(uint32_t at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t at) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at) : "memory");
}
__device__ __forceinline__ void wait_phase(uint32_t at, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
}
// The compiler does not know that products write registers behind its back: nothing moves over this.
template <int N>
__device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// What a product is told of a tile: its address, 128-byte swizzle, 1024 bytes to the next eight rows, and where the next
// 64 elements of the width are (of use where these are the product's columns).
__device__ __forceinline__ uint64_t tile_at(uint32_t address, int next_64) {
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(next_64 >> 4) << 16 |
         static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}

// Four words of each of four lanes, turned: word s of lane t becomes word t of lane s.
__device__ __forceinline__ void turn(uint32_t (&word)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(~0u, odd ? word[i] : word[i + 1], 1);
    word[i] = odd ? got : word[i];
    word[i + 1] = odd ? word[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(~0u, high ? word[i] : word[i + 2], 2);
    word[i] = high ? got : word[i];
    word[i + 2] = high ? word[i + 2] : got;
  }
}

// A place in a ring and the parity of its barriers.
template <int Stages>
struct Place {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == Stages) stage = 0, phase ^= 1;
  }
};

template <int D>
struct Ring {
  static constexpr int box = 128 * 128;  // bytes of 64 elements of the width of 128 rows
  static constexpr int tile = D / 64 * box, stages = D == 64 ? 4 : 2;
  static constexpr int bytes = (2 + 2 * stages) * tile + (4 + 4 * stages) * 8 + 1024;  // two tiles of queries
};

// Shares from scores: powers of two less the running maximum, whose growth gives `shrink`; `sum` are this lane's.
template <bool First>
__device__ __forceinline__ void softmax_of(float (&s)[64], float (&top)[2], float (&sum)[2], float (&shrink)[2],
                                           float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float next[4];  // four chains, for the latency's sake
#pragma unroll
    for (int i = 0; i < 4; ++i) next[i] = s[i / 2 * 4 + half * 2 + i % 2];
#pragma unroll
    for (int n = 2; n < 16; n += 2)
#pragma unroll
      for (int i = 0; i < 4; ++i) next[i] = fmaxf(next[i], s[(n + i / 2) * 4 + half * 2 + i % 2]);
    float most = fmaxf(fmaxf(next[0], next[1]), fmaxf(next[2], next[3]));
    if (!First) most = fmaxf(most, top[half]);
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float shift = most * scale;
    shrink[half] = First ? 1.0f : exp2_fast(fmaf(top[half], scale, -shift));
    top[half] = most;
    float part[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < 16; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = s[n * 4 + half * 2 + i];
        x = exp2_fast(fmaf(x, scale, -shift));
        part[i] += x;
      }
    sum[half] = (First ? 0.0f : sum[half] * shrink[half]) + (part[0] + part[1]);
  }
}

template <typename T>
struct Jobs {
  T* out;
  int heads, seq, dim, tiles;
  bool pairs;  // a job is a long and a short tile of a head: all jobs are equally long
  float scale;
};

template <typename T, int D>
__global__ void __launch_bounds__(384, 1)
    flash_groups(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                 const __grid_constant__ CUtensorMap map_v, const __grid_constant__ Jobs<T> h) {
  using R = Ring<D>;
  constexpr int S = R::stages, Boxes = D / 64;
  extern __shared__ unsigned char room[];
  const uint32_t qs = (smem_of(room) + 1023) & ~1023u, ks = qs + 2 * R::tile, vs = ks + S * R::tile;
  const uint32_t q_full = vs + S * R::tile, q_empty = q_full + 16, k_full = q_empty + 16, k_empty = k_full + 8 * S;
  const uint32_t v_full = k_empty + 8 * S, v_empty = v_full + 8 * S;
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      make_barrier(q_full + 8 * i, 1);
      make_barrier(q_empty + 8 * i, 8);
    }
    for (int i = 0; i < S; ++i) {
      make_barrier(k_full + 8 * i, 1);
      make_barrier(v_full + 8 * i, 1);
      make_barrier(k_empty + 8 * i, 8);  // warps that read it
      make_barrier(v_empty + 8 * i, 8);
    }
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();

  // Calls work(head, tile) for every tile of this block.
  const int each = h.pairs ? (h.tiles + 1) / 2 : h.tiles;
  const auto every = [&](const auto& work) {
#pragma unroll 1
    for (int job = blockIdx.x; job < h.heads * each; job += gridDim.x) {
      const int head = job / each, last = h.tiles - 1 - job % each, other = h.pairs ? job % each : last;
#pragma unroll 1
      for (int tile = last;; tile = other) {
        work(head, tile);
        if (tile == other) break;
      }
    }
  };

  if (group == 0) {
    fewer_registers<24>();
    if (threadIdx.x == 0) {
      Place<2> q;
      Place<S> k, v;
      const auto bring = [&](const CUtensorMap& map, uint32_t to, uint32_t full, uint32_t empty, auto& place, int row,
                             int head) {
        const uint32_t ready = full + 8 * place.stage;
        wait_phase(empty + 8 * place.stage, place.phase ^ 1);
        expect(ready, R::tile);
#pragma unroll
        for (int i = 0; i < Boxes; ++i)
          copy_box(to + place.stage * R::tile + i * R::box, &map, ready, i * 64, row, head);
        copies_begun(ready);
        place.next();
      };
      every([&](int head, int tile) {
        bring(map_q, qs, q_full, q_empty, q, tile * 128, head);
        bring(map_k, ks, k_full, k_empty, k, tile * 128, head);
#pragma unroll 1
        for (int j = tile; j > 0; --j) {  // in the order of their use
          bring(map_k, ks, k_full, k_empty, k, (j - 1) * 128, head);
          bring(map_v, vs, v_full, v_empty, v, j * 128, head);
        }
        bring(map_v, vs, v_full, v_empty, v, 0, head);
      });
    }
  } else {
    more_registers<240>();
    const int own = group - 1, g = lane / 4, t = lane % 4;
    Place<2> q;
    Place<S> k, v;
    // The groups' turns at the tensor cores, by two barriers of their 256 threads.
    const auto wait_turn = [&] {
      if (TURNS) asm volatile("bar.sync %0, 256;" ::"r"(1 + own) : "memory");
    };
    const auto pass_turn = [&] {
      if (TURNS) asm volatile("bar.arrive %0, 256;" ::"r"(2 - own) : "memory");
    };
    const auto leave = [&](uint32_t empty) {
      if (lane == 0) arrive(empty);
    };
    float s[64], o[D / 2];
    unsigned p[8][4];
    const auto start_scores = [&] {
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {
        const int at = kk / 4 * R::box + kk % 4 * 32;
        const uint64_t a = tile_at(qs + q.stage * R::tile + own * 8192 + at, 0), b = tile_at(ks + k.stage * R::tile + at, 0);
        if (kk == 0)
          product<false, T>(s, a, b);
        else
          product<true, T>(s, a, b);
      }
      products_close();
    };
    const auto start_outcome = [&] {
      const uint64_t b = tile_at(vs + v.stage * R::tile, R::box);
#pragma unroll
      for (int kk = 0; kk < 8; ++kk) product_of<T>(o, p[kk], b + kk * (2048 >> 4));
      products_close();
    };
    const auto pack_shares = [&] {
#pragma unroll
      for (int kk = 0; kk < 8; ++kk)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[kk][i] = pack(s[kk * 8 + i * 2], s[kk * 8 + i * 2 + 1], T());
    };
    if (own == 1) pass_turn();

    every([&](int head, int tile) {
      float top[2], sum[2], shrink[2];
      const int in_tile = own * 64 + warp * 16 + g;  // this lane's first row of the tile
      wait_phase(q_full + 8 * q.stage, q.phase);
      wait_phase(k_full + 8 * k.stage, k.phase);
      products_start();
      start_scores();
#pragma unroll
      for (int i = 0; i < D / 2; ++i) o[i] = 0.0f;
      products_wait<0>();
      pin(s);
      leave(k_empty + 8 * k.stage);
      k.next();
#pragma unroll
      for (int i = 0; i < 64; ++i)
        if (i / 4 * 8 + t * 2 + i % 2 > in_tile + i / 2 % 2 * 8) s[i] = -INFINITY;
      softmax_of<true>(s, top, sum, shrink, h.scale);
      pack_shares();

#pragma unroll 1
      for (int j = tile; j > 0; --j) {
        wait_phase(k_full + 8 * k.stage, k.phase);
        wait_phase(v_full + 8 * v.stage, v.phase);
        wait_turn();
        pin(o);
        products_start();
        start_scores();
        start_outcome();
        pass_turn();
        products_wait<1>();
        pin(s);
        leave(k_empty + 8 * k.stage);
        k.next();
        softmax_of<false>(s, top, sum, shrink, h.scale);
        pin(s);
        // Nothing new: but over a branch the compiler does not pull the wait below up, before the exponentials.
        wait_phase(v_full + 8 * v.stage, v.phase);
        products_wait<0>();
        pin(o);
        leave(v_empty + 8 * v.stage);
        v.next();
#pragma unroll
        for (int i = 0; i < D / 2; ++i) o[i] *= shrink[i / 2 % 2];
        pack_shares();
      }
      leave(q_empty + 8 * q.stage);
      q.next();
      wait_phase(v_full + 8 * v.stage, v.phase);
      pin(o);
      products_start();
      start_outcome();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
        sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
        sum[half] = 1.0f / sum[half];
      }
      products_wait<0>();
      pin(o);
      leave(v_empty + 8 * v.stage);
      v.next();

#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile * 128 + in_tile + half * 8;
        T* const to = h.out + (static_cast<int64_t>(head) * h.seq + row) * h.dim;
#pragma unroll
        for (int n = 0; n < D / 8; n += 4) {
          uint32_t word[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            word[i] = pack(o[(n + i) * 4 + half * 2] * sum[half], o[(n + i) * 4 + half * 2 + 1] * sum[half], T());
          turn(word);  // eight neighbours in a lane
          if (row < h.seq && (n + t) * 8 < h.dim)
            *reinterpret_cast<uint4*>(to + (n + t) * 8) = make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    });
  }
}

template <typename T, int D>
void launch_groups(const Heads<T>& h, cudaStream_t stream) {
  const int tiles = (h.seq + 127) / 128;
  const bool pairs = static_cast<int64_t>(h.heads) * tiles > PROCESSORS;
  const Jobs<T> jobs = {h.out, h.heads, h.seq, h.dim, tiles, pairs, h.scale};
  const int64_t count = static_cast<int64_t>(h.heads) * (pairs ? (tiles + 1) / 2 : tiles);
  auto kernel = &flash_groups<T, D>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Ring<D>::bytes));
  kernel<<<static_cast<unsigned>(std::min<int64_t>(count, PROCESSORS)), 384, Ring<D>::bytes, stream>>>(
      map_of(h.q, h.dim, h.seq, h.heads, 128), map_of(h.k, h.dim, h.seq, h.heads, 128),
      map_of(h.v, h.dim, h.seq, h.heads, 128), jobs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
#endif

// Heads wider than 128: one warp a query, keys one by one.
template <typename T>
__global__ void wide(Heads<T> h) {
  const int lane = threadIdx.x % 32;
  const int64_t at = blockIdx.x * 4ll + threadIdx.x / 32;
  if (at >= static_cast<int64_t>(h.heads) * h.seq) return;
  const int64_t head = at / h.seq * h.seq;
  float query[8], o[8] = {}, top = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) query[i] = lane + 32 * i < h.dim ? to_float(h.q[at * h.dim + lane + 32 * i]) : 0.0f;
  for (int64_t key = head; key <= at; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (lane + 32 * i < h.dim) score += query[i] * to_float(h.k[key * h.dim + lane + 32 * i]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    const float next = fmaxf(top, score), shrink = exp2f((top - next) * h.scale), share = exp2f((score - next) * h.scale);
    top = next;
    sum = sum * shrink + share;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      o[i] = o[i] * shrink + (lane + 32 * i < h.dim ? share * to_float(h.v[key * h.dim + lane + 32 * i]) : 0.0f);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (lane + 32 * i < h.dim) put(h.out + at * h.dim + lane + 32 * i, o[i] / sum);
}

template <typename T, int D, bool Vec>
void launch(Heads<T> h, cudaStream_t stream) {
  constexpr bool single = sizeof(T) == 4;
  constexpr int rows = single ? WARPS32 * 16 : 128, keys = single ? 32 : KEYS16, threads = single ? WARPS32 * 32 : 128;
  constexpr int bytes = (rows + 4 * keys) * (single ? (D + 4) * 4 : (D + 8) * 2);
  void (*kernel)(Heads<T>);
  if constexpr (single)
    kernel = flash32<D, Vec>;
  else
    kernel = flash16<T, D, Vec>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  h.tiles = (h.seq + rows - 1) / rows;
  kernel<<<static_cast<unsigned>(static_cast<int64_t>(h.heads) * h.tiles), threads, bytes, stream>>>(h);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor out) {
  const int heads = static_cast<int>(q.size(0) * q.size(1)), seq = static_cast<int>(q.size(2));
  const int dim = static_cast<int>(q.size(3));
  const Heads<T> h = {static_cast<const T*>(q.data_ptr()), static_cast<const T*>(k.data_ptr()),
                      static_cast<const T*>(v.data_ptr()), static_cast<T*>(out.data_ptr()), heads, seq, dim, 0,
                      kLog2e / sqrtf(static_cast<float>(dim))};
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const auto fits = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const bool vec = dim * sizeof(T) % 16 == 0 && fits(h.q) && fits(h.k) && fits(h.v) && fits(h.out);
#if STRATEGY == 1
  if constexpr (sizeof(T) == 2) {
    if (vec && seq >= GROUPS_SEQ && dim <= 128) {
      if (dim <= 64)
        launch_groups<T, 64>(h, stream);
      else
        launch_groups<T, 128>(h, stream);
      return;
    }
  }
#endif
  if (dim > 128) {
    wide<T><<<static_cast<unsigned>((static_cast<int64_t>(heads) * seq + 3) / 4), 128, 0, stream>>>(h);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else if (!vec) {
    launch<T, 128, false>(h, stream);
  } else if (dim <= 64) {
    launch<T, 64, true>(h, stream);
  } else {
    launch<T, 128, true>(h, stream);
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous(), "q, k and v must be contiguous");
  TORCH_CHECK(q.size(3) <= 256, "a head is at most 256 wide, not ", q.size(3));
  auto out = torch::empty_like(q);
  if (q.numel() == 0) return out;
  if (q.scalar_type() == at::kFloat)
    attention<float>(q, k, v, out);
  else if (q.scalar_type() == at::kHalf)
    attention<__half>(q, k, v, out);
  else
    attention<__nv_bfloat16>(q, k, v, out);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
