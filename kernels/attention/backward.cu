// Gradients of causal attention from the saved output and log-sum-exp. 16-bit heads of widths by eights by warp groups, see
// side_groups; float32 by three TF32 products of split numbers, summed in short chains, in one walk over the queries of
// each tile of keys (fused32), or by small blocks if there is little work (split32). Others by m16n8k16 in two launches
// without atomics: one has a tile of queries a block and walks over keys (grad_q, and the rows' sums of grad_out · out on
// the way), the next has a tile of keys and walks over queries (grad_k, grad_v). Shares and their gradients stay in
// registers: the product's result is the next one's left operand.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

#include <algorithm>
#include <vector>

// Heads whose tiles run together.
// tune: GROUP = 16 [16, 64]
#ifndef GROUP
#define GROUP 16
#endif
// How 16-bit heads of a width that is a multiple of 8 are done. 0: warps load fragments themselves (mma.sync), in two launches. 1: warp
// groups multiply straight from shared memory that the copy engine fills (wgmma, TMA), five products instead of seven.
// tune: STRATEGY = 1 [0, 1]
#ifndef STRATEGY
#define STRATEGY 1
#endif
// Shorter sequences are not worth STRATEGY 1's set-up.
#ifndef GROUPS_SEQ
#define GROUPS_SEQ 128
#endif
// Whether float32 sums are added to two at once (red.v2), or one by one.
#ifndef PAIRED_ADDS
#define PAIRED_ADDS 1
#endif
// float32: up to how many tiles of 128 rows, of all heads, are split into blocks of 16 rows.
#ifndef SPLIT_TILES
#define SPLIT_TILES 64
#endif
// float32: 1: one walk with five products, grad_q by atomics; 0: a walk of each side, seven products, without.
// tune: FUSED = 1 [0, 1]
#ifndef FUSED
#define FUSED 1
#endif
// 16-bit: rows of the walked-over side at once.
#ifndef OTHERS16
#define OTHERS16 32
#endif
// 16-bit: warps of a block, 16 rows each.
#ifndef WARPS16
#define WARPS16 8
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
__device__ __forceinline__ void load_rows(T* to, const T* head, int row0, int seq, int dim, int thread) {
  if constexpr (Vec) {
    constexpr int each = 16 / sizeof(T), across = D / each;
#pragma unroll
    for (int i = thread; i < Rows * across; i += Threads) {
      const int row = i / across, col = i % across * each;
      const bool inside = row0 + row < seq && col < dim;
      copy16(to + row * Pitch + col, inside ? head + static_cast<int64_t>(row0 + row) * dim + col : head, inside);
    }
  } else {
    for (int i = thread; i < Rows * D; i += Threads) {
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
__device__ __forceinline__ Job job_at(int number, int heads, int tiles, int together) {
  const int per = together * tiles, group = number / per, within = number % per;
  const int wide = min(together, heads - group * together);
  return {static_cast<int64_t>(group) * together + within % wide, within / wide};
}
__device__ __forceinline__ Job job_of(int heads, int tiles) { return job_at(blockIdx.x, heads, tiles, GROUP); }

constexpr float kLog2e = 1.4426950408889634f;

// Queries: own rows are (q, grad_out), others (k, v), earlier. Keys: own rows are (k, v), others (q, grad_out), later.
template <typename T>
struct Side {
  const T *own, *own_grad, *other, *other_grad, *out;
  const float* lse;
  float* delta;  // of a query: grad_out · out; written by the queries' launch
  T *to, *to_grad;
  int heads, seq, dim, tiles;
  float scale;
};

// What both kernels do before their products: where the block is, its rows, the first tile of others.
template <typename T, int D, bool Keys, bool Vec, int Warps, int BN, int P>
struct Walk {
  static constexpr int BM = Warps * 16, Threads = Warps * 32;
  static constexpr int bytes = (2 * BM + 4 * BN) * P * static_cast<int>(sizeof(T)) + 4 * BN * 4;
  const Side<T>& h;
  T *own, *own_grad, *others;
  float* stats;  // two buffers of log-sum-exp, then delta, of the queries walked over
  int64_t first, first_row;
  int row0, tile, tiles;

  __device__ __forceinline__ Walk(const Side<T>& h, unsigned char* room) : h(h) {
    own = reinterpret_cast<T*>(room);
    own_grad = own + BM * P;
    others = own_grad + BM * P;
    stats = reinterpret_cast<float*>(others + 4 * BN * P);
    const Job job = job_of(h.heads, h.tiles);
    row0 = (Keys ? job.tile : h.tiles - 1 - job.tile) * BM;
    first_row = job.head * h.seq;
    first = first_row * h.dim;
    tile = Keys ? row0 / BN : 0;
    tiles = ((Keys ? h.seq : min(row0 + BM, h.seq)) + BN - 1) / BN;
  }
  __device__ __forceinline__ void load_own() const {
    load_rows<BM, D, P, Threads, Vec>(own, h.own + first, row0, h.seq, h.dim, threadIdx.x);
    load_rows<BM, D, P, Threads, Vec>(own_grad, h.own_grad + first, row0, h.seq, h.dim, threadIdx.x);
  }
  __device__ __forceinline__ void load(int tile) const {
    T* const to = others + tile % 2 * 2 * BN * P;
    load_rows<BN, D, P, Threads, Vec>(to, h.other + first, tile * BN, h.seq, h.dim, threadIdx.x);
    load_rows<BN, D, P, Threads, Vec>(to + BN * P, h.other_grad + first, tile * BN, h.seq, h.dim, threadIdx.x);
    if (Keys && threadIdx.x < BN) {
      const int row = tile * BN + threadIdx.x;
      float* const at = stats + tile % 2 * 2 * BN + threadIdx.x;
      at[0] = row < h.seq ? h.lse[first_row + row] : INFINITY;  // past the end: no share
      at[BN] = row < h.seq ? h.delta[first_row + row] : 0.0f;
    }
  }
  // A query's row of grad_out · out, by its own warp; in the lanes that have the row in a product.
  __device__ __forceinline__ void own_stats(float (&lse)[2], float (&delta)[2]) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    lse[0] = lse[1] = INFINITY;
    delta[0] = delta[1] = 0.0f;
    for (int i = 0; i < 16; ++i) {
      const int row = row0 + warp * 16 + i;
      if (row >= h.seq) break;
      float sum = 0.0f;
      for (int col = lane; col < h.dim; col += 32) {
        const int64_t at = first + static_cast<int64_t>(row) * h.dim + col;
        sum += to_float(h.own_grad[at]) * to_float(h.out[at]);
      }
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (lane == 0) h.delta[first_row + row] = sum;
      if (lane / 4 == i % 8) {
        if (i < 8) {
          delta[0] = sum;
          lse[0] = h.lse[first_row + row];
        } else {
          delta[1] = sum;
          lse[1] = h.lse[first_row + row];
        }
      }
    }
  }
  template <int DT>
  __device__ __forceinline__ void store(T* to, const float (&acc)[DT][4], float scale) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + warp * 16 + g + half * 8;
      if (row >= h.seq) continue;
      T* const line = to + first + static_cast<int64_t>(row) * h.dim;
#pragma unroll
      for (int d = 0; d < DT; ++d) {
        const int col = d * 8 + t * 2;
        const float x = acc[d][half * 2] * scale, y = acc[d][half * 2 + 1] * scale;
        if constexpr (Vec) {
          if (col >= h.dim) continue;
          if constexpr (sizeof(T) == 4)
            *reinterpret_cast<float2*>(line + col) = make_float2(x, y);
          else
            *reinterpret_cast<unsigned*>(line + col) = pack(x, y, T());
        } else {
          if (col < h.dim) put(line + col, x);
          if (col + 1 < h.dim) put(line + col + 1, y);
        }
      }
    }
  }
};

// The share and its gradient from a score and the gradient of a share, for entry i of tile n of a warp's product.
template <bool Keys, int BN>
__device__ __forceinline__ void shares(float& score, float& grad, int row, int col, int in_tile, const float (&lse)[2],
                                       const float (&delta)[2], int half, const float* stats, float scale) {
  const float sum = Keys ? stats[in_tile] : lse[half], part = Keys ? stats[BN + in_tile] : delta[half];
  const bool seen = Keys ? col >= row : col <= row;
  score = seen ? exp2_fast(fmaf(score, scale, -sum) * kLog2e) : 0.0f;
  grad = score * (grad - part);
}

template <typename T, int D, bool Keys, bool Vec>
__global__ __launch_bounds__(WARPS16 * 32) void side16(Side<T> h) {
  constexpr int BN = OTHERS16, P = D + 8, NT = BN / 8, DT = D / 8;
  extern __shared__ __align__(16) unsigned char room[];
  const Walk<T, D, Keys, Vec, WARPS16, BN, P> walk(h, room);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = walk.row0 + warp * 16;
  float lse[2], delta[2], acc[DT][4] = {}, acc_grad[Keys ? DT : 1][4] = {};
  walk.load_own();
  walk.load(walk.tile);
  copies_commit();
  if constexpr (!Keys) walk.own_stats(lse, delta);

  for (int tile = walk.tile; tile < walk.tiles; ++tile) {
    const int col0 = tile * BN;
    copies_wait<0>();
    __syncthreads();
    if (tile + 1 < walk.tiles) walk.load(tile + 1);
    copies_commit();
    if (Keys ? col0 + BN <= row0 : col0 > row0 + 15) continue;
    const T* const other = walk.others + tile % 2 * 2 * BN * P;
    const T* const other_grad = other + BN * P;
    const float* const stats = walk.stats + tile % 2 * 2 * BN;

    float s[NT][4] = {}, ds[NT][4] = {};
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk) {
      unsigned a[4], a_grad[4];
      ldmatrix4(a, walk.own + (warp * 16 + lane % 16) * P + kk * 16 + lane / 16 * 8);
      ldmatrix4(a_grad, walk.own_grad + (warp * 16 + lane % 16) * P + kk * 16 + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < NT; n += 2) {
        const int at = (n * 8 + lane % 8 + lane / 16 * 8) * P + kk * 16 + lane / 8 % 2 * 8;
        unsigned b[4];
        ldmatrix4(b, other + at);
        mma(s[n], a, b[0], b[1], T());
        mma(s[n + 1], a, b[2], b[3], T());
        ldmatrix4(b, other_grad + at);
        mma(ds[n], a_grad, b[0], b[1], T());
        mma(ds[n + 1], a_grad, b[2], b[3], T());
      }
    }
    unsigned p[NT / 2][4], dp[NT / 2][4];
#pragma unroll
    for (int n = 0; n < NT; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int in_tile = n * 8 + t * 2 + i % 2;
        shares<Keys, BN>(s[n][i], ds[n][i], row0 + g + i / 2 * 8, col0 + in_tile, in_tile, lse, delta, i / 2, stats,
                         h.scale);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        p[n / 2][n % 2 * 2 + half] = pack(s[n][half * 2], s[n][half * 2 + 1], T());
        dp[n / 2][n % 2 * 2 + half] = pack(ds[n][half * 2], ds[n][half * 2 + 1], T());
      }
    }
#pragma unroll
    for (int kk = 0; kk < BN / 16; ++kk)
#pragma unroll
      for (int d = 0; d < DT; d += 2) {
        const int at = (kk * 16 + lane % 16) * P + d * 8 + lane / 16 * 8;
        unsigned b[4];
        ldmatrix4_trans(b, other + at);
        mma(acc[d], dp[kk], b[0], b[1], T());
        mma(acc[d + 1], dp[kk], b[2], b[3], T());
        if constexpr (Keys) {
          ldmatrix4_trans(b, other_grad + at);
          mma(acc_grad[d], p[kk], b[0], b[1], T());
          mma(acc_grad[d + 1], p[kk], b[2], b[3], T());
        }
      }
  }
  walk.store(h.to, acc, h.scale);
  if constexpr (Keys) walk.store(h.to_grad, acc_grad, 1.0f);
}

// 16 own rows by BN others: float32 products along the heads' width, 32 entries at a time. A share is a power of a score
// up to 100 less the saved log-sum-exp, so the tensor core may truncate the large parts only once every 8 entries.
template <int D, int P, int NT>
__device__ __forceinline__ void products32(float (&s)[NT][4], const float* own, const float* other) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int chunk = 0; chunk < D; chunk += 32) {
    unsigned big[4][4], small[4][4];
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      unsigned a[4];
      ldmatrix4(a, own + lane % 16 * P + chunk + kk * 8 + lane / 16 * 4);
      split(a, big[kk], small[kk]);
    }
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
      float sum[2][4] = {}, mixed[2][4] = {};
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        unsigned b[4];
        ldmatrix4(b, other + (n * 8 + lane % 8 + lane / 16 * 8) * P + chunk + kk * 8 + lane / 8 % 2 * 4);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const unsigned both[2] = {b[i * 2], b[i * 2 + 1]};
          unsigned b_big[2], b_small[2];
          float high[4] = {};
          split(both, b_big, b_small);
          mma_tf32(mixed[i], small[kk], b_big);
          mma_tf32(mixed[i], big[kk], b_small);
          mma_tf32(high, big[kk], b_big);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][e] += high[e];
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) s[n + i / 4][i % 4] += sum[i / 4][i % 4] + mixed[i / 4][i % 4];
    }
  }
}

// acc += left · other, where left is a product's result: column t of the new product is its column 2t, t + 4 is 2t + 1.
template <int D, int P, int NT>
__device__ __forceinline__ void accumulate32(float (&acc)[D / 8][4], const float (&left)[NT][4], const float* other) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned big[NT][4], small[NT][4];
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const unsigned a[4] = {__float_as_uint(left[n][0]), __float_as_uint(left[n][2]), __float_as_uint(left[n][1]),
                           __float_as_uint(left[n][3])};
    split(a, big[n], small[n]);
  }
#pragma unroll
  for (int d = 0; d < D / 8; d += 2) {
    float high[2][4] = {}, mixed[2][4] = {};
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const at = other + (n * 8 + t * 2) * P + (d + i) * 8 + g;
        const unsigned both[2] = {__float_as_uint(at[0]), __float_as_uint(at[P])};
        unsigned b_big[2], b_small[2];
        split(both, b_big, b_small);
        mma_tf32(mixed[i], small[n], b_big);
        mma_tf32(mixed[i], big[n], b_small);
        mma_tf32(high[i], big[n], b_big);
      }
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[d + i / 4][i % 4] += high[i / 4][i % 4] + mixed[i / 4][i % 4];
  }
}

constexpr int kWarps32 = 8, kOthers32 = 32;
constexpr int kFusedPitch = kWarps32 * 16 + 4;  // of a query's gradients of shares

template <int D, bool Keys, bool Vec>
__global__ __launch_bounds__(kWarps32 * 32) void side32(Side<float> h) {
  constexpr int BN = kOthers32, P = D + 4, NT = BN / 8, DT = D / 8;
  extern __shared__ __align__(16) unsigned char room[];
  const Walk<float, D, Keys, Vec, kWarps32, BN, P> walk(h, room);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = walk.row0 + warp * 16;
  float lse[2], delta[2], acc[DT][4] = {}, acc_grad[Keys ? DT : 1][4] = {};
  walk.load_own();
  walk.load(walk.tile);
  copies_commit();
  if constexpr (!Keys) walk.own_stats(lse, delta);

  for (int tile = walk.tile; tile < walk.tiles; ++tile) {
    const int col0 = tile * BN;
    copies_wait<0>();
    __syncthreads();
    if (tile + 1 < walk.tiles) walk.load(tile + 1);
    copies_commit();
    if (Keys ? col0 + BN <= row0 : col0 > row0 + 15) continue;
    const float* const other = walk.others + tile % 2 * 2 * BN * P;
    const float* const other_grad = other + BN * P;
    const float* const stats = walk.stats + tile % 2 * 2 * BN;

    float s[NT][4] = {}, ds[NT][4] = {};
    products32<D, P, NT>(s, walk.own + warp * 16 * P, other);
    products32<D, P, NT>(ds, walk.own_grad + warp * 16 * P, other_grad);
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int in_tile = n * 8 + t * 2 + i % 2;
        shares<Keys, BN>(s[n][i], ds[n][i], row0 + g + i / 2 * 8, col0 + in_tile, in_tile, lse, delta, i / 2, stats,
                         h.scale);
      }
    if constexpr (Keys) accumulate32<D, P, NT>(acc_grad, s, other_grad);
    accumulate32<D, P, NT>(acc, ds, other);
  }
  walk.store(h.to, acc, h.scale);
  if constexpr (Keys) walk.store(h.to_grad, acc_grad, 1.0f);
}

__device__ __forceinline__ void add_two(float* to, float x, float y) {
#if PAIRED_ADDS
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#else
  atomicAdd(to, x);
  atomicAdd(to + 1, y);
#endif
}

// Both sides in one: the keys' walk, whose tiles also add to grad_q, so that scores and gradients of shares are made once.
// For that the gradients of shares go through shared memory, query by query; each warp then makes 16 queries by a quarter
// of the width from all 128 keys, in sums of 32, and adds it to grad_q (which is zero before).
template <int D, bool Vec>
__global__ __launch_bounds__(kWarps32 * 32) void fused32(Side<float> h, float* grad_q) {
  constexpr int BN = kOthers32, P = D + 4, NT = BN / 8, DT = D / 8, QT = D / 32, PK = kFusedPitch;
  extern __shared__ __align__(16) unsigned char room[];
  using Keys = Walk<float, D, true, Vec, kWarps32, BN, P>;
  const Keys walk(h, room);
  float* const through = reinterpret_cast<float*>(room + Keys::bytes);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row0 = walk.row0 + warp * 16, to_row = warp % 2 * 16, to_col = warp / 2 * (D / 4);
  float acc[DT][4] = {}, acc_grad[DT][4] = {};
  walk.load_own();
  walk.load(walk.tile);
  copies_commit();

#pragma unroll 1
  for (int tile = walk.tile; tile < walk.tiles; ++tile) {
    const int col0 = tile * BN;
    copies_wait<0>();
    __syncthreads();
    if (tile + 1 < walk.tiles) walk.load(tile + 1);
    copies_commit();
    const float* const other = walk.others + tile % 2 * 2 * BN * P;
    const float* const other_grad = other + BN * P;
    const float* const stats = walk.stats + tile % 2 * 2 * BN;

    float s[NT][4] = {}, ds[NT][4] = {};
    if (col0 + BN > row0) {  // else all of the warp's keys are ahead
      products32<D, P, NT>(s, walk.own + warp * 16 * P, other);
      products32<D, P, NT>(ds, walk.own_grad + warp * 16 * P, other_grad);
      const float none[2] = {};
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int in_tile = n * 8 + t * 2 + i % 2;
          shares<true, BN>(s[n][i], ds[n][i], row0 + g + i / 2 * 8, col0 + in_tile, in_tile, none, none, i / 2, stats,
                           h.scale);
        }
    }
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) through[(n * 8 + t * 2 + i % 2) * PK + warp * 16 + g + i / 2 * 8] = ds[n][i];
    if (col0 + BN > row0) {
      accumulate32<D, P, NT>(acc_grad, s, other_grad);
      accumulate32<D, P, NT>(acc, ds, other);
    }
    __syncthreads();

    // The product's column t is key 2t, t + 4 is 2t + 1, as in accumulate32.
    float dq[QT][4] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < kWarps32 * 16; chunk += 32) {
      if (walk.row0 + chunk >= col0 + BN) break;  // keys ahead
      float high[QT][4] = {}, mixed[QT][4] = {};
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        const int key = chunk + kk * 8 + t * 2;
        const float2 x = *reinterpret_cast<const float2*>(through + (to_row + g) * PK + key);
        const float2 y = *reinterpret_cast<const float2*>(through + (to_row + g + 8) * PK + key);
        const unsigned a[4] = {__float_as_uint(x.x), __float_as_uint(y.x), __float_as_uint(x.y), __float_as_uint(y.y)};
        unsigned big[4], small[4];
        split(a, big, small);
#pragma unroll
        for (int d = 0; d < QT; ++d) {
          const float* const at = walk.own + key * P + to_col + d * 8 + g;
          const unsigned both[2] = {__float_as_uint(at[0]), __float_as_uint(at[P])};
          unsigned b_big[2], b_small[2];
          split(both, b_big, b_small);
          mma_tf32(mixed[d], small, b_big);
          mma_tf32(mixed[d], big, b_small);
          mma_tf32(high[d], big, b_big);
        }
      }
#pragma unroll
      for (int d = 0; d < QT; ++d)
#pragma unroll
        for (int i = 0; i < 4; ++i) dq[d][i] += high[d][i] + mixed[d][i];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = col0 + to_row + g + half * 8;
      if (row >= h.seq) continue;
      float* const to = grad_q + walk.first + static_cast<int64_t>(row) * h.dim;
#pragma unroll
      for (int d = 0; d < QT; ++d) {
        const int col = to_col + d * 8 + t * 2;
        const float x = dq[d][half * 2] * h.scale, y = dq[d][half * 2 + 1] * h.scale;
        if constexpr (Vec) {
          if (col < h.dim) add_two(to + col, x, y);
        } else {
          if (col < h.dim) atomicAdd(to + col, x);
          if (col + 1 < h.dim) atomicAdd(to + col + 1, y);
        }
      }
    }
  }
  walk.store(h.to, acc, h.scale);
  walk.store(h.to_grad, acc_grad, 1.0f);
}

// Before it: sums of grad_out · out, and zeros in grad_q. A warp has a row.
__global__ void __launch_bounds__(256) before32(Side<float> h, float* grad_q) {
  const int lane = threadIdx.x % 32;
  const int64_t row = blockIdx.x * 8ll + threadIdx.x / 32;
  if (row >= static_cast<int64_t>(h.heads) * h.seq) return;
  float sum = 0.0f;
  for (int col = lane; col < h.dim; col += 32) {
    sum += h.other_grad[row * h.dim + col] * h.out[row * h.dim + col];
    grad_q[row * h.dim + col] = 0.0f;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) h.delta[row] = sum;
}

// Few heads of few tokens: blocks of 16 rows, whose eight warps share the other rows among them, 16 at a time, and add up
// what each has. Both sides in one launch: the keys' blocks make the queries' sums of grad_out · out themselves.
constexpr int kSplitWarps = 8, kSplitRows = 16;
template <int D>
constexpr int split_bytes() {
  return ((2 + 2 * kSplitWarps) * kSplitRows * (D + 4) + kSplitWarps * 2 * kSplitRows) * 4;
}

// Log-sum-exp and grad_out · out of 16 queries from row0 on, by a warp: eight lanes a row.
template <bool Vec>
__device__ __forceinline__ void query_stats(float* to, const float* grad, const float* out, const float* lse, int row0,
                                            int seq, int dim) {
  const int lane = threadIdx.x % 32, part = lane % 8;
  constexpr int each = Vec ? 4 : 1;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = row0 + i * 4 + lane / 8;
    const int64_t first = static_cast<int64_t>(row) * dim;
    float sum = 0.0f;
    if (row < seq)
      for (int col = part * each; col < dim; col += 8 * each) {
        if constexpr (Vec) {
          const float4 a = *reinterpret_cast<const float4*>(grad + first + col);
          const float4 b = *reinterpret_cast<const float4*>(out + first + col);
          sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
        } else {
          sum += grad[first + col] * out[first + col];
        }
      }
#pragma unroll
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (part == 0) {
      to[i * 4 + lane / 8] = row < seq ? lse[row] : INFINITY;  // past the end: no share
      to[kSplitRows + i * 4 + lane / 8] = sum;
    }
  }
}

template <int D, bool Keys, bool Vec>
__device__ __forceinline__ void split_side(const Side<float>& h, int64_t head, int row0, float* room) {
  constexpr int W = kSplitWarps, BN = kSplitRows, P = D + 4, NT = BN / 8, DT = D / 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t first = head * h.seq * h.dim;
  float* const own = room;
  float* const own_grad = own + BN * P;
  float* const others = own_grad + BN * P;
  float* const other = others + warp * 2 * BN * P;
  float* const other_grad = other + BN * P;
  float* const stats = others + W * 2 * BN * P + warp * 2 * BN;
  const int begin = Keys ? row0 / BN : 0, end = Keys ? (h.seq + BN - 1) / BN : row0 / BN + 1;
  const float* const grad = (Keys ? h.other_grad : h.own_grad) + first;
  const auto load = [&](int tile) {
    if (tile < end) {
      load_rows<BN, D, P, 32, Vec>(other, h.other + first, tile * BN, h.seq, h.dim, lane);
      load_rows<BN, D, P, 32, Vec>(other_grad, h.other_grad + first, tile * BN, h.seq, h.dim, lane);
    }
    copies_commit();
    if (tile < end && Keys) query_stats<Vec>(stats, grad, h.out + first, h.lse + head * h.seq, tile * BN, h.seq, h.dim);
  };
  load_rows<BN, D, P, W * 32, Vec>(own, h.own + first, row0, h.seq, h.dim, threadIdx.x);
  load_rows<BN, D, P, W * 32, Vec>(own_grad, h.own_grad + first, row0, h.seq, h.dim, threadIdx.x);
  load(begin + warp);
  if (!Keys) query_stats<Vec>(stats, grad, h.out + first, h.lse + head * h.seq, row0, h.seq, h.dim);
  copies_wait<0>();
  __syncthreads();
  float lse[2], delta[2], acc[DT][4] = {}, acc_grad[Keys ? DT : 1][4] = {};
  for (int half = 0; half < 2 && !Keys; ++half) {
    lse[half] = stats[g + half * 8];
    delta[half] = stats[BN + g + half * 8];
  }
#pragma unroll 1
  for (int tile = begin + warp; tile < end; tile += W) {
    float s[NT][4] = {}, ds[NT][4] = {};
    products32<D, P, NT>(s, own, other);
    products32<D, P, NT>(ds, own_grad, other_grad);
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int in_tile = n * 8 + t * 2 + i % 2;
        shares<Keys, BN>(s[n][i], ds[n][i], row0 + g + i / 2 * 8, tile * BN + in_tile, in_tile, lse, delta, i / 2, stats,
                         h.scale);
      }
    if constexpr (Keys) accumulate32<D, P, NT>(acc_grad, s, other_grad);
    accumulate32<D, P, NT>(acc, ds, other);
    __syncwarp();
    if (tile + W < end) {
      load(tile + W);
      copies_wait<0>();
      __syncwarp();
    }
  }
  // Sums of the warps, in their order. A warp's part lies where its other rows were.
  const auto leave = [&](float* to, const float (&x)[DT][4]) {
#pragma unroll
    for (int d = 0; d < DT; ++d) {
      *reinterpret_cast<float2*>(to + g * P + d * 8 + t * 2) = make_float2(x[d][0], x[d][1]);
      *reinterpret_cast<float2*>(to + (g + 8) * P + d * 8 + t * 2) = make_float2(x[d][2], x[d][3]);
    }
  };
  leave(other, acc);
  if constexpr (Keys) leave(other_grad, acc_grad);
  __syncthreads();
  const int parts = min(W, end - begin);
  for (int i = threadIdx.x; i < (Keys ? 2 : 1) * BN * h.dim; i += W * 32) {
    const int col = i % h.dim, row = i / h.dim % BN, which = i / h.dim / BN;
    if (row0 + row >= h.seq) continue;
    float sum = 0.0f;
    for (int w = 0; w < parts; ++w) sum += others[(w * 2 + which) * BN * P + row * P + col];
    (which ? h.to_grad : h.to)[first + static_cast<int64_t>(row0 + row) * h.dim + col] = which ? sum : sum * h.scale;
  }
}

template <int D, bool Vec>
__global__ void __launch_bounds__(kSplitWarps * 32, D == 64 ? 2 : 1) split32(Side<float> queries, Side<float> keys) {
  extern __shared__ __align__(16) unsigned char room[];
  const int number = blockIdx.x / 2, row0 = number % queries.tiles * kSplitRows, head = number / queries.tiles;
  if (blockIdx.x % 2 == 0)
    split_side<D, false, Vec>(queries, head, row0, reinterpret_cast<float*>(room));
  else
    split_side<D, true, Vec>(keys, head, row0, reinterpret_cast<float*>(room));
}

// ---- 16-bit by warp groups ----------------------------------------------------------------------------------------
// A block has 128 keys and their values and walks over tiles of queries, from the diagonal on. Two groups of four warps
// have 64 keys each and multiply straight from shared memory (wgmma), which one thread of a third group has the copy
// engine fill: 64 elements of the width to a 128-byte row, swizzled. Scores are made as keys by queries, so that shares
// and their gradients are left operands straight from registers for grad_v and grad_k; for grad_q the gradients of shares
// go through shared memory, and the tile's part of grad_q is added to a float32 array. Five products in all.
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

// d (64 x N) = or += a (64 x 16) · b (16 x N), both in shared memory; rows lie along the sum, or (Turned) across it.
#define PRODUCT(type, n, list, at_a, at_b, at_keep, at_turned, keep, all)                                                \
  asm volatile("{ .reg .pred keep; setp.ne.b32 keep, " at_keep ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
               "." type " {" list "}, " at_a ", " at_b ", keep, 1, 1, " at_turned ", " at_turned "; }"                    \
               : all                                                                                                     \
               : "l"(a), "l"(b), "n"(keep), "n"(Turned ? 1 : 0))
#define PRODUCT_64(type, keep, kind) PRODUCT(type, "128", LIST_64, "%64", "%65", "%66", "%67", keep, ALL_64(kind, d))
#define PRODUCT_32(type, keep, kind) PRODUCT(type, "64", LIST_32, "%32", "%33", "%34", "%35", keep, ALL_32(kind, d))
template <bool Keep, bool Turned, typename T>
__device__ __forceinline__ void product(float (&d)[64], uint64_t a, uint64_t b) {
  if constexpr (Keep && std::is_same_v<T, __half>)
    PRODUCT_64("f16", 1, "+f");
  else if constexpr (Keep)
    PRODUCT_64("bf16", 1, "+f");
  else if constexpr (std::is_same_v<T, __half>)
    PRODUCT_64("f16", 0, "=f");
  else
    PRODUCT_64("bf16", 0, "=f");
}
template <bool Keep, bool Turned, typename T>
__device__ __forceinline__ void product(float (&d)[32], uint64_t a, uint64_t b) {
  if constexpr (Keep && std::is_same_v<T, __half>)
    PRODUCT_32("f16", 1, "+f");
  else if constexpr (Keep)
    PRODUCT_32("bf16", 1, "+f");
  else if constexpr (std::is_same_v<T, __half>)
    PRODUCT_32("f16", 0, "=f");
  else
    PRODUCT_32("bf16", 0, "=f");
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
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, int bytes, uint32_t ready) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(ready)
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

__device__ __forceinline__ void add_four(float* to, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// Sizes in shared memory, in bytes. Heads of width 64 take 128 queries at once, others 64.
template <int D>
struct Layout {
  static constexpr int queries = D == 64 ? 128 : 64, stages = 2, boxes = D / 64;
  static constexpr int key_box = 128 * 128, query_box = queries * 128;  // 64 elements of the width, 128 bytes a row
  static constexpr int keys = boxes * key_box, tile = boxes * query_box, stats = queries * 8;
  static constexpr int shares = 128 * queries * 2;  // gradients of shares, 64 queries to a row, two buffers
  static constexpr int bytes = 2 * keys + stages * (2 * tile + stats) + 2 * shares + (1 + 2 * stages) * 8 + 1024;
};

template <typename T>
struct Gradients {
  const T *grad_out, *out;
  const float* lse;
  float* stats;  // of each tile of queries: log-sum-exp (base 2), then grad_out · out; rows rounded up to 128
  float* sums;   // of grad_q, rows likewise; a tile's lie as a product leaves them
  int* done;     // blocks that have added all of theirs to 128 rows of sums
  T *grad_q, *grad_k, *grad_v;
  int heads, seq, dim, padded, tiles;  // a head is at most D wide; the copy engine brings zeros past its width
  float scale;
};

// Before: statistics of each query, zeros for the sums of grad_q. A row has D / 8 lanes.
template <typename T, int D>
__global__ void __launch_bounds__(256) before_groups(const __grid_constant__ Gradients<T> h) {
  constexpr int lanes = D / 8, queries = Layout<D>::queries;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes, row = static_cast<int>(at % h.padded);
  const int64_t head = at / h.padded;  // rows are a multiple of 128: no block goes past the end
  float4* const zero = reinterpret_cast<float4*>(h.sums + at * D) + lane;
  zero[0] = zero[lanes] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float sum = 0.0f;
  const int64_t from = head * h.seq + row;
  if (row < h.seq && lane * 8 < h.dim) {
    T a[8], b[8];
    *reinterpret_cast<uint4*>(a) = __ldg(reinterpret_cast<const uint4*>(h.grad_out + from * h.dim) + lane);
    *reinterpret_cast<uint4*>(b) = __ldg(reinterpret_cast<const uint4*>(h.out + from * h.dim) + lane);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += to_float(a[i]) * to_float(b[i]);
  }
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) {
    float* const to = h.stats + at / queries * 2 * queries + at % queries;
    to[0] = row < h.seq ? h.lse[from] * kLog2e : INFINITY;  // no share past the end
    to[queries] = sum;
    if (at % 128 == 0) h.done[at / 128] = 0;
  }
}

template <typename T, int D>
__global__ void __launch_bounds__(384, 1)
    side_groups(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_grad,
                const __grid_constant__ Gradients<T> h) {
  using L = Layout<D>;
  constexpr int BM = L::queries, S = L::stages;
  extern __shared__ unsigned char room[];
  __shared__ int ripe[256];  // tiles of 128 queries of which this block was the last to add its part
  const uint32_t ks = (smem_of(room) + 1023) & ~1023u, vs = ks + L::keys, qs = vs + L::keys, gs = qs + S * L::tile;
  const uint32_t ds = gs + S * L::tile, stats = ds + 2 * L::shares;
  const uint32_t own_full = stats + S * L::stats, full = own_full + 8, empty = full + 8 * S;
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const Job job = job_of(h.heads, h.tiles);
  const int head = static_cast<int>(job.head), key0 = job.tile * 128;
  const int first = key0 / BM, last = (h.seq + BM - 1) / BM;  // tiles of queries
  if (threadIdx.x == 0) {
    make_barrier(own_full, 1);
    for (int i = 0; i < S; ++i) {
      make_barrier(full + 8 * i, 1);
      make_barrier(empty + 8 * i, 8);  // warps that read it
    }
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  const auto next = [&] {
    if (++stage == S) stage = 0, phase ^= 1;
  };

  if (group == 0) {
    fewer_registers<24>();
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (int tile = first; tile < last; ++tile) {
        const uint32_t ready = full + 8 * stage;
        if (tile == first) {
          expect(own_full, 2 * L::keys);
#pragma unroll
          for (int i = 0; i < L::boxes; ++i) {
            copy_box(ks + i * L::key_box, &map_k, own_full, i * 64, key0, head);
            copy_box(vs + i * L::key_box, &map_v, own_full, i * 64, key0, head);
          }
          copies_begun(own_full);
        }
        wait_phase(empty + 8 * stage, phase ^ 1);
        expect(ready, 2 * L::tile + L::stats);
#pragma unroll
        for (int i = 0; i < L::boxes; ++i) {
          copy_box(qs + stage * L::tile + i * L::query_box, &map_q, ready, i * 64, tile * BM, head);
          copy_box(gs + stage * L::tile + i * L::query_box, &map_grad, ready, i * 64, tile * BM, head);
        }
        copy_bytes(stats + stage * L::stats, h.stats + (static_cast<int64_t>(head) * h.padded + tile * BM) * 2, L::stats, ready);
        copies_begun(ready);
        next();
      }
    }
  } else {
    more_registers<240>();
    const int own = group - 1, g = lane / 4, t = lane % 4;
    const int in_tile = own * 64 + warp * 16 + g;  // this lane's first key of the block
    const float scale = h.scale * kLog2e;
    float grad_k[D / 2], grad_v[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) grad_k[i] = grad_v[i] = 0.0f;
    float dq[32];
    // A tile's part of grad_q. Each group makes 64 queries by 64 elements of the width: its half of the width, or of the
    // queries.
    const auto start_queries = [&](int tile) {
      const uint64_t left = tile_at(ds + tile % 2 * L::shares + (D == 64 ? own * L::key_box : 0), 0);
      const uint64_t right = tile_at(ks + (D == 64 ? 0 : own * L::key_box), 0);
#pragma unroll
      for (int kk = 0; kk < 8; ++kk) {
        if (kk == 0)
          product<false, true, T>(dq, left, right);
        else
          product<true, true, T>(dq, left + kk * (2048 >> 4), right + kk * (2048 >> 4));
      }
      products_close();
    };
    // The sums of a tile lie as the threads of a group have them, four to a thread, so that a warp adds to 512 bytes in a row.
    const auto sums_of = [&](int row) {
      return h.sums + (static_cast<int64_t>(head) * h.padded + row) * D + own * 4096 + threadIdx.x % 128 * 4;
    };
    const auto add_queries = [&](int tile) {
      float* const to = sums_of(tile * BM);
#pragma unroll
      for (int n = 0; n < 8; ++n) add_four(to + n * 512, dq[n * 4], dq[n * 4 + 1], dq[n * 4 + 2], dq[n * 4 + 3]);
    };
    wait_phase(own_full, 0);

    // One tile; grad_q of the tile before it is made on the way, and goes out while grad_k's product runs.
    const auto step = [&](int tile, auto follows) {
      const uint32_t q = qs + stage * L::tile, grad = gs + stage * L::tile, st = stats + stage * L::stats;
      const uint32_t through = ds + tile % 2 * L::shares;
      float s[BM / 2], dp[BM / 2];
      unsigned p[BM / 16][4];
      wait_phase(full + 8 * stage, phase);
      products_start();
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {  // scores
        const uint64_t a = tile_at(ks + own * 8192 + kk / 4 * L::key_box + kk % 4 * 32, 0);
        const uint64_t b = tile_at(q + kk / 4 * L::query_box + kk % 4 * 32, 0);
        if (kk == 0)
          product<false, false, T>(s, a, b);
        else
          product<true, false, T>(s, a, b);
      }
      products_close();
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {  // gradients of shares
        const uint64_t a = tile_at(vs + own * 8192 + kk / 4 * L::key_box + kk % 4 * 32, 0);
        const uint64_t b = tile_at(grad + kk / 4 * L::query_box + kk % 4 * 32, 0);
        if (kk == 0)
          product<false, false, T>(dp, a, b);
        else
          product<true, false, T>(dp, a, b);
      }
      products_close();
      products_wait<1>();
      pin(s);

      // Shares: entry i of s is key in_tile + (i / 2 % 2) * 8 and query i / 4 * 8 + t * 2 + i % 2 of the tile.
      // Statistics are read where they are used: registers are short.
      const auto two_stats = [&](int n, int which, float (&x)[2]) {
        const uint32_t at = st + (which * BM + n * 8 + t * 2) * 4;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(at) : "memory");
      };
#pragma unroll
      for (int n = 0; n < BM / 8; ++n) {
        float sum[2];
        two_stats(n, 0, sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) s[n * 4 + i] = exp2_fast(fmaf(s[n * 4 + i], scale, -sum[i % 2]));
      }
      if (tile * BM < key0 + 128) {
        const int ahead = key0 + in_tile - tile * BM;
#pragma unroll
        for (int i = 0; i < BM / 2; ++i)
          if (ahead + i / 2 % 2 * 8 > i / 4 * 8 + t * 2 + i % 2) s[i] = 0.0f;
      }
#pragma unroll
      for (int kk = 0; kk < BM / 16; ++kk)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[kk][i] = pack(s[kk * 8 + i * 2], s[kk * 8 + i * 2 + 1], T());
      pin(grad_v);
      products_start();
      const uint64_t by_grad = tile_at(grad, L::query_box), by_q = tile_at(q, L::query_box);
#pragma unroll
      for (int kk = 0; kk < BM / 16; ++kk) product_of<T>(grad_v, p[kk], by_grad + kk * (2048 >> 4));
      products_close();
      products_wait<1>();
      pin(dp);

      unsigned dp16[BM / 16][4];
#pragma unroll
      for (int n = 0; n < BM / 8; ++n) {
        float part[2];  // of a query, grad_out · out
        two_stats(n, 1, part);
#pragma unroll
        for (int i = n * 4; i < n * 4 + 4; ++i) dp[i] = s[i] * (dp[i] - part[i % 2]);
      }
#pragma unroll
      for (int kk = 0; kk < BM / 16; ++kk)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          dp16[kk][i] = pack(dp[kk * 8 + i * 2], dp[kk * 8 + i * 2 + 1], T());
          // Row: the key; 64 queries to a row of 128 bytes, as the copy engine would swizzle it.
          const int key = in_tile + i % 2 * 8, chunk = kk * 2 + i / 2;
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(through + chunk / 8 * L::key_box + key * 128 +
                                                       ((chunk % 8 ^ g) << 4) + t * 4),
                       "r"(dp16[kk][i])
                       : "memory");
        }
      pin(grad_k);
      products_start();
      if constexpr (follows) start_queries(tile - 1);
#pragma unroll
      for (int kk = 0; kk < BM / 16; ++kk) product_of<T>(grad_k, dp16[kk], by_q + kk * (2048 >> 4));
      products_close();
      if constexpr (follows) {
        products_wait<1>();
        pin(dq);
        add_queries(tile - 1);
      }
      // Both groups' gradients of shares are there, as the tensor cores see memory. One barrier a tile is enough: the
      // next tile has another buffer, and this one is free again once the next barrier is passed.
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync 1, 256;" ::: "memory");
      products_wait<0>();
      pin(grad_k);
      pin(grad_v);
      if (lane == 0) arrive(empty + 8 * stage);
      next();
    };
    step(first, std::false_type());
#pragma unroll 1
    for (int tile = first + 1; tile < last; ++tile) step(tile, std::true_type());
    products_start();
    start_queries(last - 1);
    products_wait<0>();
    pin(dq);
    add_queries(last - 1);

    // A product's result to 64 rows, of which `first_row` is this lane's, and columns from `first_col` on.
    const auto store = [&](T* to, const auto& x, int first_row, int first_col, float by) {
      constexpr int columns = sizeof(x) / sizeof(float) * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + half * 8;
        T* const line = to + (static_cast<int64_t>(head) * h.seq + row) * h.dim + first_col;
#pragma unroll
        for (int n = 0; n < columns / 8; n += 4) {
          uint32_t word[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            word[i] = pack(x[(n + i) * 4 + half * 2] * by, x[(n + i) * 4 + half * 2 + 1] * by, T());
          turn(word);  // eight neighbours in a lane
          if (row < h.seq && first_col + (n + t) * 8 < h.dim)
            *reinterpret_cast<uint4*>(line + (n + t) * 8) = make_uint4(word[0], word[1], word[2], word[3]);
        }
      }
    };
    store(h.grad_v, grad_v, key0 + in_tile, 0, 1.0f);
    store(h.grad_k, grad_k, key0 + in_tile, 0, h.scale);

    // Who adds the last part to 128 rows of grad_q turns them to its type: they are still in the L2. A part was added by
    // each block whose keys are not ahead of the rows.
    __threadfence();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    const int worker = threadIdx.x - 128;
    int* const done = h.done + static_cast<int64_t>(head) * h.tiles;
#pragma unroll 1
    for (int base = job.tile; base < h.tiles; base += 256) {
      const int tile = base + worker;
      ripe[worker] = tile < h.tiles && atomicAdd(done + tile, 1) == tile;
      __threadfence();
      asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll 1
      for (int i = 0; i < min(256, h.tiles - base); ++i) {
        if (!ripe[i]) continue;
#pragma unroll 1
        for (int row = (base + i) * 128; row < (base + i + 1) * 128; row += BM) {
          const float* const from = sums_of(row);
#pragma unroll
          for (int n = 0; n < 8; ++n) {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(from + n * 512));
            dq[n * 4] = four.x, dq[n * 4 + 1] = four.y, dq[n * 4 + 2] = four.z, dq[n * 4 + 3] = four.w;
          }
          store(h.grad_q, dq, row + (D == 64 ? own * 64 : 0) + warp * 16 + g, D == 64 ? 0 : own * 64, h.scale);
        }
      }
      asm volatile("bar.sync 1, 256;" ::: "memory");
    }
  }
}

template <typename T, int D>
void launch_groups(Gradients<T> h, const T* q, const T* k, const T* v, cudaStream_t stream) {
  using L = Layout<D>;
  auto kernel = &side_groups<T, D>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes));
  constexpr int rows = 256 / (D / 8);  // of a block, before
  const int64_t padded = static_cast<int64_t>(h.heads) * h.padded;
  before_groups<T, D><<<static_cast<unsigned>(padded / rows), 256, 0, stream>>>(h);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernel<<<static_cast<unsigned>(static_cast<int64_t>(h.heads) * h.tiles), 384, L::bytes, stream>>>(
      map_of(q, h.dim, h.seq, h.heads, L::queries), map_of(k, h.dim, h.seq, h.heads, 128),
      map_of(v, h.dim, h.seq, h.heads, 128), map_of(h.grad_out, h.dim, h.seq, h.heads, L::queries), h);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
#endif

// Heads wider than 128: one warp a row, the others one by one.
template <typename T, bool Keys>
__global__ void wide(Side<T> h) {
  const int lane = threadIdx.x % 32;
  const int64_t at = blockIdx.x * 4ll + threadIdx.x / 32;
  if (at >= static_cast<int64_t>(h.heads) * h.seq) return;
  const int64_t head = at / h.seq * h.seq;
  float own[8], own_grad[8], acc[8] = {}, acc_grad[8] = {}, delta = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bool inside = lane + 32 * i < h.dim;
    own[i] = inside ? to_float(h.own[at * h.dim + lane + 32 * i]) : 0.0f;
    own_grad[i] = inside ? to_float(h.own_grad[at * h.dim + lane + 32 * i]) : 0.0f;
    if (!Keys && inside) delta += own_grad[i] * to_float(h.out[at * h.dim + lane + 32 * i]);
  }
  for (int step = 16; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
  if (!Keys && lane == 0) h.delta[at] = delta;
  for (int64_t j = Keys ? at : head; j < (Keys ? head + h.seq : at + 1); ++j) {
    float score = 0.0f, grad = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (lane + 32 * i < h.dim) {
        score += own[i] * to_float(h.other[j * h.dim + lane + 32 * i]);
        grad += own_grad[i] * to_float(h.other_grad[j * h.dim + lane + 32 * i]);
      }
    for (int step = 16; step > 0; step /= 2) {
      score += __shfl_xor_sync(0xffffffffu, score, step);
      grad += __shfl_xor_sync(0xffffffffu, grad, step);
    }
    const float share = exp2f((score * h.scale - h.lse[Keys ? j : at]) * kLog2e);
    const float through = share * (grad - (Keys ? h.delta[j] : delta));
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (lane + 32 * i < h.dim) {
        acc[i] += through * to_float(h.other[j * h.dim + lane + 32 * i]);
        acc_grad[i] += share * to_float(h.other_grad[j * h.dim + lane + 32 * i]);
      }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (lane + 32 * i < h.dim) {
      put(h.to + at * h.dim + lane + 32 * i, acc[i] * h.scale);
      if (Keys) put(h.to_grad + at * h.dim + lane + 32 * i, acc_grad[i]);
    }
}

template <typename T, int D, bool Keys, bool Vec>
void launch(Side<T> h, cudaStream_t stream) {
  constexpr bool single = sizeof(T) == 4;
  constexpr int warps = single ? kWarps32 : WARPS16, others = single ? kOthers32 : OTHERS16, P = D + (single ? 4 : 8);
  constexpr int bytes = Walk<T, D, Keys, Vec, warps, others, P>::bytes;
  void (*kernel)(Side<T>);
  if constexpr (single)
    kernel = side32<D, Keys, Vec>;
  else
    kernel = side16<T, D, Keys, Vec>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  h.tiles = (h.seq + warps * 16 - 1) / (warps * 16);
  kernel<<<static_cast<unsigned>(static_cast<int64_t>(h.heads) * h.tiles), warps * 32, bytes, stream>>>(h);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Whether rows are whole 16-byte pieces.
template <typename T>
bool vectors(const Side<T>& h) {
  const auto fits = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  return h.dim * sizeof(T) % 16 == 0 && fits(h.own) && fits(h.own_grad) && fits(h.other) && fits(h.other_grad) &&
         fits(h.out) && fits(h.to) && fits(h.to_grad);
}

template <int D, bool Vec>
void launch_split(const Side<float>& queries, const Side<float>& keys, cudaStream_t stream) {
  C10_CUDA_CHECK(cudaFuncSetAttribute(split32<D, Vec>, cudaFuncAttributeMaxDynamicSharedMemorySize, split_bytes<D>()));
  const int blocks = 2 * queries.heads * queries.tiles;
  split32<D, Vec><<<static_cast<unsigned>(blocks), kSplitWarps * 32, split_bytes<D>(), stream>>>(queries, keys);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int D, bool Vec>
void launch_fused(Side<float> keys, float* grad_q, cudaStream_t stream) {
  constexpr int rows = kWarps32 * 16;
  constexpr int bytes = Walk<float, D, true, Vec, kWarps32, kOthers32, D + 4>::bytes + kOthers32 * kFusedPitch * 4;
  const int64_t all = static_cast<int64_t>(keys.heads) * keys.seq;
  before32<<<static_cast<unsigned>((all + 7) / 8), 256, 0, stream>>>(keys, grad_q);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  C10_CUDA_CHECK(cudaFuncSetAttribute(fused32<D, Vec>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  keys.tiles = (keys.seq + rows - 1) / rows;
  const int64_t blocks = static_cast<int64_t>(keys.heads) * keys.tiles;
  fused32<D, Vec><<<static_cast<unsigned>(blocks), kWarps32 * 32, bytes, stream>>>(keys, grad_q);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, bool Keys>
void side(const Side<T>& h, cudaStream_t stream) {
  const bool vec = vectors(h);
  if (h.dim > 128) {
    wide<T, Keys><<<static_cast<unsigned>((static_cast<int64_t>(h.heads) * h.seq + 3) / 4), 128, 0, stream>>>(h);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else if (!vec) {
    launch<T, 128, Keys, false>(h, stream);
  } else if (h.dim <= 64) {
    launch<T, 64, Keys, true>(h, stream);
  } else {
    launch<T, 128, Keys, true>(h, stream);
  }
}

constexpr int kFewTokens = 32;

// Few tokens: a block a head, every share in shared memory. A slope is P_ij * sum_k P_ik (dP_ij - dP_ik): where one share is
// near 1, the usual dP_ij - delta_i would be the difference of two numbers that are all but equal.
template <typename T>
__global__ void __launch_bounds__(512) few_tokens(const T* grad_out, const T* q, const T* k, const T* v, T* grad_q, T* grad_k,
                                                  T* grad_v, int seq, int dim, float scale) {
  __shared__ float shares[kFewTokens][kFewTokens + 1], products[kFewTokens][kFewTokens + 1], slopes[kFewTokens][kFewTokens + 1];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * seq * dim;
  const int lane = threadIdx.x % 32, thread = static_cast<int>(threadIdx.x);
  for (int pair = thread / 32; pair < seq * seq; pair += 16) {
    const int i = pair / seq, j = pair % seq;
    if (j > i) continue;
    float score = 0, product = 0;
    for (int d = lane; d < dim; d += 32) {
      score += static_cast<float>(q[base + i * dim + d]) * static_cast<float>(k[base + j * dim + d]);
      product += static_cast<float>(grad_out[base + i * dim + d]) * static_cast<float>(v[base + j * dim + d]);
    }
    for (int step = 16; step > 0; step /= 2) {
      score += __shfl_xor_sync(0xffffffffu, score, step);
      product += __shfl_xor_sync(0xffffffffu, product, step);
    }
    if (lane == 0) shares[i][j] = score * scale, products[i][j] = product;
  }
  __syncthreads();
  if (thread < seq) {
    float top = -INFINITY, sum = 0;
    for (int j = 0; j <= thread; ++j) top = fmaxf(top, shares[thread][j]);
    for (int j = 0; j <= thread; ++j) sum += shares[thread][j] = expf(shares[thread][j] - top);
    for (int j = 0; j <= thread; ++j) shares[thread][j] /= sum;
  }
  __syncthreads();
  for (int at = thread; at < seq * seq; at += 512) {
    const int i = at / seq, j = at % seq;
    if (j > i) continue;
    float slope = 0;
    for (int o = 0; o <= i; ++o) slope += shares[i][o] * (products[i][j] - products[i][o]);
    slopes[i][j] = shares[i][j] * slope * scale;
  }
  __syncthreads();
  for (int at = thread; at < seq * dim; at += 512) {
    const int row = at / dim, d = at % dim;
    float to_q = 0, to_k = 0, to_v = 0;
    for (int o = 0; o <= row; ++o) to_q += slopes[row][o] * static_cast<float>(k[base + o * dim + d]);
    for (int o = row; o < seq; ++o) {
      to_k += slopes[o][row] * static_cast<float>(q[base + o * dim + d]);
      to_v += shares[o][row] * static_cast<float>(grad_out[base + o * dim + d]);
    }
    grad_q[base + at] = static_cast<T>(to_q), grad_k[base + at] = static_cast<T>(to_k), grad_v[base + at] = static_cast<T>(to_v);
  }
}

template <typename T>
void gradients(torch::Tensor grad_out, torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor out,
               torch::Tensor lse, torch::Tensor delta, torch::Tensor grad_q, torch::Tensor grad_k, torch::Tensor grad_v) {
  const int heads = static_cast<int>(q.size(0) * q.size(1)), seq = static_cast<int>(q.size(2));
  const int dim = static_cast<int>(q.size(3));
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  const auto in = [](torch::Tensor x) { return static_cast<const T*>(x.data_ptr()); };
  const auto to = [](torch::Tensor x) { return static_cast<T*>(x.data_ptr()); };
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* const sums = lse.data_ptr<float>();
  float* const deltas = delta.data_ptr<float>();
  if (seq <= kFewTokens) {
    few_tokens<T><<<heads, 512, 0, stream>>>(in(grad_out), in(q), in(k), in(v), to(grad_q), to(grad_k), to(grad_v), seq, dim, scale);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
#if STRATEGY == 1
  if constexpr (sizeof(T) == 2) {
    bool fits = true;
    for (const auto& x : {grad_out, q, k, v, out, grad_q, grad_k, grad_v})
      fits = fits && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
    if (fits && seq >= GROUPS_SEQ && dim <= 128 && dim % 8 == 0) {
      const int tiles = (seq + 127) / 128, padded = tiles * 128, width = dim <= 64 ? 64 : 128;
      auto room = torch::empty({static_cast<int64_t>(heads) * padded * (width + 2) + heads * tiles}, lse.options());
      float* const sums_q = room.data_ptr<float>();
      float* const stats = sums_q + static_cast<int64_t>(heads) * padded * width;
      int* const done = reinterpret_cast<int*>(stats + static_cast<int64_t>(heads) * padded * 2);
      const Gradients<T> h = {in(grad_out), in(out),    sums,       stats, sums_q, done,  to(grad_q),
                              to(grad_k),   to(grad_v), heads,      seq,   dim,    padded, tiles, scale};
      if (width == 64)
        launch_groups<T, 64>(h, in(q), in(k), in(v), stream);
      else
        launch_groups<T, 128>(h, in(q), in(k), in(v), stream);
      return;
    }
  }
#endif
  Side<T> queries = {in(q), in(grad_out), in(k), in(v), in(out), sums,  deltas, to(grad_q), nullptr,
                     heads, seq,          dim,   0,     scale};
  Side<T> keys = {in(k), in(v), in(q), in(grad_out), in(out), sums, deltas, to(grad_k), to(grad_v),
                  heads, seq,   dim,   0,            scale};
  if constexpr (sizeof(T) == 4) {
    if (dim <= 128 && static_cast<int64_t>(heads) * ((seq + 127) / 128) <= SPLIT_TILES) {
      queries.tiles = keys.tiles = (seq + kSplitRows - 1) / kSplitRows;
      if (!vectors(queries) || !vectors(keys))
        launch_split<128, false>(queries, keys, stream);
      else if (dim <= 64)
        launch_split<64, true>(queries, keys, stream);
      else
        launch_split<128, true>(queries, keys, stream);
      return;
    }
    if (dim <= 128 && FUSED) {
      if (!vectors(queries) || !vectors(keys))
        launch_fused<128, false>(keys, queries.to, stream);
      else if (dim <= 64)
        launch_fused<64, true>(keys, queries.to, stream);
      else
        launch_fused<128, true>(keys, queries.to, stream);
      return;
    }
  }
  side<T, false>(queries, stream);
  side<T, true>(keys, stream);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor q, torch::Tensor k, torch::Tensor v,
                                    torch::Tensor out, torch::Tensor lse) {
  TORCH_CHECK(grad_out.is_contiguous() && q.is_contiguous() && k.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(v.is_contiguous() && out.is_contiguous() && lse.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(q.size(3) <= 256, "a head is at most 256 wide, not ", q.size(3));
  auto delta = torch::empty_like(lse);
  auto grad_q = torch::empty_like(q), grad_k = torch::empty_like(k), grad_v = torch::empty_like(v);
  if (q.numel() == 0) return {grad_q, grad_k, grad_v};
  if (q.scalar_type() == at::kFloat)
    gradients<float>(grad_out, q, k, v, out, lse, delta, grad_q, grad_k, grad_v);
  else if (q.scalar_type() == at::kHalf)
    gradients<__half>(grad_out, q, k, v, out, lse, delta, grad_q, grad_k, grad_v);
  else
    gradients<__nv_bfloat16>(grad_out, q, k, v, out, lse, delta, grad_q, grad_k, grad_v);
  return {grad_q, grad_k, grad_v};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
