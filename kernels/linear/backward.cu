// Gradients of a linear layer: tiles through a ring of shared memory to the tensor cores.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa), 16-bit types directly.
// The bias' gradient is summed from the tiles that the weight's gradient reads.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

#include <algorithm>
#include <vector>

// Steps of the sum that are on their way to shared memory at once.
// tune: STAGES = 4 [3, 4]
#ifndef STAGES
#define STAGES 4
#endif
// Tiles of large float32 products. 1: 128 × 128, one block of eight warps a multiprocessor; 0: 128 × 64, two blocks.
// tune: WIDE = 1 [0, 1]
#ifndef WIDE
#define WIDE 1
#endif
// How large products of 16-bit numbers are made. 0: warps load fragments themselves (mma.sync). 1: warp groups multiply
// straight from shared memory that the copy engine fills (wgmma, TMA), up to 128 × 256 results a block.
#ifndef STRATEGY
#define STRATEGY 1
#endif
// At least so many steps of multiply-add make STRATEGY 1 worth its set-up.
#ifndef GROUP_STEPS
#define GROUP_STEPS (1ll << 30)
#endif
// Blocks of a cluster. 2: blocks of two tiles, one below the other, share the copies of the second operand.
// tune: CLUSTER = 2 [1, 2]
#ifndef CLUSTER
#define CLUSTER 2
#endif
// Whether a cluster shares copies (0 only where multicast is not known).
#ifndef MULTICAST
#define MULTICAST 1
#endif
// Results of STRATEGY 1 leave. 0: from registers; 1: through shared memory by the copy engine, while the next tile begins.
// tune: STAGED = 1 [0, 1]
#ifndef STAGED
#define STAGED 1
#endif
// Nanoseconds by which one warp group begins after the other where sums are short; 0: together.
// tune: LAG = 600 [0, 600]
#ifndef LAG
#define LAG 600
#endif
// Independent products. 0: each in a launch of its own; 1: together in one.
// tune: JOINED = 1 [0, 1]
#ifndef JOINED
#define JOINED 1
#endif
// Columns of a tile; 0: 256 or MIDDLE, whichever leaves less of the last round of tiles empty.
#ifndef WIDTH
#define WIDTH 0
#endif
#ifndef MIDDLE
#define MIDDLE 192
#endif
// Blocks or clusters that run at once.
#ifndef UNITS
#define UNITS (132 / CLUSTER)
#endif
// Rows of tiles in a band; the tiles of a band are made column by column, so that operands are found in the L2.
#ifndef BAND
#define BAND 16
#endif
// At most so many results are made by the path that reads operands straight into registers (float32 only).
#ifndef TINY_RESULTS
#define TINY_RESULTS (1 << 17)
#endif
#ifndef TINY_STEPS
#define TINY_STEPS (48 << 20)
#endif
// At most so many float32 results are summed in float64, or products with no axis longer than SHORT_AXIS.
#ifndef FEW_RESULTS
#define FEW_RESULTS 128
#endif
#ifndef SHORT_AXIS
#define SHORT_AXIS 32
#endif
// At least so many tiles of 128 by 128 are worth the large tile.
#ifndef BIG_TILES
#define BIG_TILES 96
#endif

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Instructions

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void copy_16(uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_4(uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(wanted ? 4 : 0) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Left>
__device__ __forceinline__ void wait_for() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

__device__ __forceinline__ void load_turned(uint32_t (&to)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

// sum += a · b for 16 rows, 8 columns and 32 bytes of the sum's axis.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, float>)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else if constexpr (std::is_same_v<T, at::Half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A float32 as two TF32 numbers: the nearest one and what is left, of which the tensor core reads the first 11 bits.
// Three products of such pairs are as exact as float32 (big · big, big · small, small · big).
__device__ __forceinline__ void split(uint32_t value, uint32_t& big, uint32_t& small) {
  big = (value + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(__uint_as_float(value) - __uint_as_float(big));
}

// ---------------------------------------------------------------------------------------------------------------------
// What becomes of results. `put` gets V neighbouring results of a row, the first at a multiple of V.

template <typename T, int V>
__device__ __forceinline__ void store(T* to, const float (&value)[V], int64_t left, bool whole) {
  struct alignas(V * sizeof(T)) Run {
    T at[V];
  };
  if (whole && left >= V) {
    Run run;
#pragma unroll
    for (int i = 0; i < V; ++i) run.at[i] = static_cast<T>(value[i]);
    *reinterpret_cast<Run*>(to) = run;
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (i < left) to[i] = static_cast<T>(value[i]);
  }
}

template <typename T, int V>
__device__ __forceinline__ void load(float (&value)[V], const T* from, int64_t left, bool whole) {
  struct alignas(V * sizeof(T)) Run {
    T at[V];
  };
  if (whole && left >= V) {
    const Run run = *reinterpret_cast<const Run*>(from);
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = static_cast<float>(run.at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = i < left ? static_cast<float>(from[i]) : 0.0f;
  }
}

__device__ __forceinline__ double value_of(double x) { return x; }
__device__ __forceinline__ double value_of(float x) { return x; }
__device__ __forceinline__ double value_of(at::Half x) { return static_cast<float>(x); }
__device__ __forceinline__ double value_of(at::BFloat16 x) { return static_cast<float>(x); }
template <typename T>
__device__ __forceinline__ T rounded(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

// The results as they are; of a sum in parts, each part as float32 at a place of its own. `sums` gets the sums of the
// first operand over the sum's axis, where wanted.
template <typename T, bool Sums = false>
struct Plain {
  static constexpr bool kPaired = false, kSums = Sums, kWide = false, kBias = false;
  T* out;
  int64_t m, n;
  float* parts = nullptr;
  T* sums = nullptr;
  float* sum_parts = nullptr;
  template <int V>
  __device__ void put(int64_t row, int64_t col, const float (&value)[V], int part) const {
    if (row >= m || col >= n) return;
    if (parts)
      store(parts + (part * m + row) * n + col, value, n - col, n % 4 == 0);
    else
      store(out + row * n + col, value, n - col, n % 8 == 0);
  }
  __device__ void put_exact(int64_t row, int64_t col, double value) const {
    out[row * n + col] = rounded<T>(value);
  }
  __device__ void put_part(int64_t row, int64_t col, float first, float second, int part) const {  // n is even
    if (row < m && col < n) *reinterpret_cast<float2*>(parts + (part * m + row) * n + col) = make_float2(first, second);
  }
  __device__ void put_sum(int64_t row, float value, int part) const {
    if (row >= m) return;
    if (parts)
      sum_parts[part * m + row] = value;
    else
      sums[row] = static_cast<T>(value);
  }
};


// ---------------------------------------------------------------------------------------------------------------------
// Products by tiles: out(m, n) = Σ a(m, k) · b(n, k)

// Operands lie row by row: k-major ones as rows of k's, the others as lines of m's or n's, one for each k. A second pair
// continues the sum (pairs == 2), or is the second factor's partner of a paired epilogue.
template <typename T, typename U = T>
struct Product {
  const T* a[2];
  const U* b[2];
  int64_t m, n, k, lda, ldb;
  int pairs = 1;
};

// Warps of a block, and the 16-by-8 tiles of each.
template <int WarpsDown, int WarpsAcross, int Down, int Across, int Blocks>
struct Shape {
  static constexpr int warps_across = WarpsAcross, down = Down, across = Across;
  static constexpr int blocks = Blocks;  // of a multiprocessor, at least
  static constexpr int rows = WarpsDown * Down * 16, cols = WarpsAcross * Across * 8;
  static constexpr int threads = WarpsDown * WarpsAcross * 32;
  static constexpr int stage = (rows + cols) * 128;  // bytes: each operand's row has 128 of them
};
using Large = Shape<2, 4, 4, 4, 1>;   // 128 × 128
using Slim = Shape<4, 2, 2, 4, 2>;    // 128 × 64
using Small = Shape<2, 2, 2, 4, 3>;   // 64 × 64

// Copies a tile of Rows rows and 128 bytes of k's to shared memory, zeros outside. Sixteen-byte chunks are permuted so
// that fragments are read without bank conflicts: in k-major tiles by the row (ldmatrix reads one chunk of 8 rows), in
// others by the line (ldmatrix: one chunk of 8 lines; float32: lanes read chunks g of lines t, t = 0 to 3).
template <int Rows, bool KMajor, bool Whole, bool Paired, int Threads, typename T>
__device__ __forceinline__ void fetch(uint32_t tile, const T* from, const T* partner, int64_t ld, int64_t row0,
                                      int64_t rows, int64_t k0, int64_t ks) {
  constexpr int run = 16 / sizeof(T), chunks = KMajor ? 8 : Rows / run;
#pragma unroll
  for (int i = 0; i < Rows * 8 / Threads; ++i) {
    const int own = threadIdx.x + i * Threads, line = own / chunks, chunk = own % chunks;
    const T* base = from;
    int64_t row, left;  // the line in memory, and how many elements of the chunk are in the operand
    int64_t place;
    int turned;
    if constexpr (KMajor) {
      row = row0 + line;
      if constexpr (Paired) {  // eight rows of one factor, then eight of its partner
        row = row0 + line / 16 * 8 + line % 8;
        if (line / 8 % 2) base = partner;
      }
      place = k0 + chunk * run;
      left = row < rows ? ks - place : 0;
      turned = chunk ^ (line & 7);
    } else {
      row = k0 + line;
      place = row0 + chunk * run;
      left = row < ks ? rows - place : 0;
      turned = sizeof(T) == 4 ? chunk ^ ((line & 3) << 1) : chunk ^ (line & 7);
    }
    const uint32_t to = tile + line * (chunks * 16) + turned * 16;
    const T* source = base + row * ld + place;
    if constexpr (Whole) {
      copy_16(to, left > 0 ? source : base, left > 0);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int e = 0; e < 4; ++e) copy_4(to + 4 * e, e < left ? source + e : base, e < left);
    } else {
      const auto* bits = reinterpret_cast<const unsigned short*>(source);
      uint32_t word[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        word[e] = (2 * e < left ? bits[2 * e] : 0u) | (2 * e + 1 < left ? bits[2 * e + 1] : 0u) << 16;
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                   "r"(word[3])
                   : "memory");
    }
  }
}

// The fragments of Tiles tiles of 16 rows (the first operand), for step `step` of 32 bytes of k's.
template <int Rows, int Tiles, bool KMajor, typename T>
__device__ __forceinline__ void rows_of(uint32_t (&to)[Tiles][4], uint32_t tile, int first, int step) {
  const int lane = threadIdx.x % 32;
  if constexpr (KMajor) {
    const int row = first + (lane & 15), chunk = 2 * step + lane / 16;
#pragma unroll
    for (int i = 0; i < Tiles; ++i) load_matrices(to[i], tile + (row + 16 * i) * 128 + ((chunk ^ (row & 7)) << 4));
  } else if constexpr (sizeof(T) == 2) {
    const int line = step * 16 + lane / 16 * 8 + lane % 8, chunk = first / 8 + lane / 8 % 2;
#pragma unroll
    for (int i = 0; i < Tiles; ++i)
      load_turned(to[i], tile + line * Rows * 2 + (((chunk + 2 * i) ^ (line & 7)) << 4));
  } else {  // four rows at once; see row_at for which rows these are
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < Tiles; ++i) {
      const int high = i % 2, group = i / 2, line = step * 8 + t + 4 * high;
      const int chunk = ((first + 32 * group) / 4 + g) ^ (t << 1);
      uint32_t word[4];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                   : "r"(tile + line * Rows * 4 + chunk * 16)
                   : "memory");
#pragma unroll
      for (int e = 0; e < 4; ++e) to[group * 2 + e / 2][high * 2 + e % 2] = word[e];
    }
  }
}

// The same for Tiles tiles of 8 columns (the second operand).
template <int Rows, int Tiles, bool KMajor, typename T>
__device__ __forceinline__ void cols_of(uint32_t (&to)[Tiles][2], uint32_t tile, int first, int step) {
  const int lane = threadIdx.x % 32;
  if constexpr (KMajor || sizeof(T) == 2) {
    const int row = first + lane / 16 * 8 + lane % 8, chunk = 2 * step + lane / 8 % 2;               // k-major
    const int line = step * 16 + lane / 8 % 2 * 8 + lane % 8, turned = first / 8 + lane / 16;  // lines of n's
#pragma unroll
    for (int i = 0; i < Tiles; i += 2) {
      uint32_t word[4];
      if constexpr (KMajor)
        load_matrices(word, tile + (row + 8 * i) * 128 + ((chunk ^ (row & 7)) << 4));
      else
        load_turned(word, tile + line * Rows * 2 + (((turned + i) ^ (line & 7)) << 4));
      to[i][0] = word[0], to[i][1] = word[1], to[i + 1][0] = word[2], to[i + 1][1] = word[3];
    }
  } else {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < Tiles / 2; ++i) {
      const int high = i % 2, group = i / 2, line = step * 8 + t + 4 * high;
      const int chunk = ((first + 32 * group) / 4 + g) ^ (t << 1);
      uint32_t word[4];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                   : "r"(tile + line * Rows * 4 + chunk * 16)
                   : "memory");
#pragma unroll
      for (int e = 0; e < 4; ++e) to[group * 4 + e][high] = word[e];
    }
  }
}

// Which row of a warp's own half `half` of tile `tile` is for lane group g: float32 lines are read four rows at once.
template <bool KMajor, typename T>
__device__ __forceinline__ int row_at(int tile, int half, int g) {
  if constexpr (KMajor || sizeof(T) == 2) return tile * 16 + half * 8 + g;
  const int q = tile * 2 + half;
  return q / 4 * 32 + 4 * g + q % 4;
}

// One block makes one tile of results, or a part of their sums (blockIdx.y).
template <typename T, typename S, bool AK, bool BK, bool Whole, typename Epilogue>
__global__ void __launch_bounds__(S::threads, S::blocks)
    product_tiles(const __grid_constant__ Product<T> p, const __grid_constant__ Epilogue epilogue, int part_steps) {
  extern __shared__ __align__(1024) char memory[];
  constexpr int depth = 128 / sizeof(T), reach = Epilogue::kPaired ? S::cols / 2 : S::cols;
  constexpr bool single = std::is_same_v<T, float>;
  // Neighbouring blocks share operands in the L2: bands of eight rows of tiles, each down first.
  const int tiles_down = static_cast<int>((p.m + S::rows - 1) / S::rows);
  const int tiles_across = static_cast<int>((p.n + reach - 1) / reach);
  const int band = blockIdx.x / (8 * tiles_across), band_rows = min(8, tiles_down - band * 8);
  const int inside = blockIdx.x - band * 8 * tiles_across;
  const int64_t row0 = static_cast<int64_t>(band * 8 + inside % band_rows) * S::rows;
  const int64_t col0 = static_cast<int64_t>(inside / band_rows) * reach;
  const int steps_each = static_cast<int>((p.k + depth - 1) / depth);
  const int begin = blockIdx.y * part_steps, end = min(begin + part_steps, steps_each * p.pairs);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int first_row = warp / S::warps_across * S::down * 16, first_col = warp % S::warps_across * S::across * 8;
  const uint32_t base = shared_address(memory);

  const auto fetch_step = [&](int step, int stage) {
    const bool second = !Epilogue::kPaired && step >= steps_each;
    const int64_t k0 = static_cast<int64_t>(second ? step - steps_each : step) * depth;
    const uint32_t at = base + stage * S::stage;
    fetch<S::rows, AK, Whole, false, S::threads>(at, second ? p.a[1] : p.a[0], p.a[1], p.lda, row0, p.m, k0, p.k);
    fetch<S::cols, BK, Whole, Epilogue::kPaired, S::threads>(at + S::rows * 128, second ? p.b[1] : p.b[0], p.b[1],
                                                             p.ldb, col0, p.n, k0, p.k);
  };

  float sum[S::down][S::across][4] = {};
  float column = 0.0f;
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) {
    if (begin + i < end) fetch_step(begin + i, i);
    commit();
  }
  int stage = 0, ahead = STAGES - 1;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    wait_for<STAGES - 2>();
    __syncthreads();
    if (step + STAGES - 1 < end) fetch_step(step + STAGES - 1, ahead);
    commit();
    const uint32_t tile_a = base + stage * S::stage, tile_b = tile_a + S::rows * 128;
    // The tensor core truncates when it adds: float32 sums go through short sums of one step, added properly.
    float part[S::down][S::across][4];
#pragma unroll
    for (int i = 0; i < S::down * S::across * 4; ++i)
      part[i / 4 / S::across][i / 4 % S::across][i % 4] =
          single ? 0.0f : sum[i / 4 / S::across][i / 4 % S::across][i % 4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      uint32_t a[S::down][4], b[S::across][2];
      rows_of<S::rows, S::down, AK, T>(a, tile_a, first_row, k);
      cols_of<S::cols, S::across, BK, T>(b, tile_b, first_col, k);
      if constexpr (single) {
        uint32_t a_small[S::down][4], b_small[S::across][2];
#pragma unroll
        for (int i = 0; i < S::down * 4; ++i) split(a[i / 4][i % 4], a[i / 4][i % 4], a_small[i / 4][i % 4]);
#pragma unroll
        for (int i = 0; i < S::across * 2; ++i) split(b[i / 2][i % 2], b[i / 2][i % 2], b_small[i / 2][i % 2]);
#pragma unroll
        for (int i = 0; i < S::down * S::across; ++i)
          multiply_add<T>(part[i / S::across][i % S::across], a_small[i / S::across], b[i % S::across]);
#pragma unroll
        for (int i = 0; i < S::down * S::across; ++i)
          multiply_add<T>(part[i / S::across][i % S::across], a[i / S::across], b_small[i % S::across]);
      }
#pragma unroll
      for (int i = 0; i < S::down * S::across; ++i)
        multiply_add<T>(part[i / S::across][i % S::across], a[i / S::across], b[i % S::across]);
    }
#pragma unroll
    for (int i = 0; i < S::down * S::across * 4; ++i) {
      float& to = sum[i / 4 / S::across][i / 4 % S::across][i % 4];
      to = (single ? to : 0.0f) + part[i / 4 / S::across][i / 4 % S::across][i % 4];
    }
    if constexpr (Epilogue::kSums) {  // the first operand's tile is here anyway
      static_assert(!AK && S::rows <= S::threads, "sums are over lines");
      if (col0 == 0 && threadIdx.x < S::rows) {
        constexpr int run = 16 / sizeof(T);
        const char* lines = memory + stage * S::stage;
        float several = 0.0f;
#pragma unroll 8
        for (int k = 0; k < depth; ++k) {
          const int chunk = threadIdx.x / run ^ (single ? (k & 3) << 1 : k & 7);
          several += static_cast<float>(reinterpret_cast<const T*>(lines + k * S::rows * sizeof(T) +
                                                                   chunk * 16)[threadIdx.x % run]);
        }
        column += several;
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
  }

  const int own_part = blockIdx.y;
  if constexpr (Epilogue::kSums)
    if (col0 == 0 && threadIdx.x < S::rows) epilogue.put_sum(row0 + threadIdx.x, column, own_part);
#pragma unroll
  for (int i = 0; i < S::down * 2; ++i) {
    const int64_t row = row0 + first_row + row_at<AK, T>(i / 2, i % 2, g);
    const auto& of = sum[i / 2];
    const int half = i % 2 * 2;
    if constexpr (Epilogue::kPaired) {
#pragma unroll
      for (int j = 0; j < S::across; j += 2)
        epilogue.put_pairs(row, col0 + first_col / 2 + j * 4 + 2 * t, {of[j][half], of[j][half + 1]},
                           {of[j + 1][half], of[j + 1][half + 1]});
    } else if constexpr (BK || sizeof(T) == 2) {
#pragma unroll
      for (int j = 0; j < S::across; ++j)
        epilogue.template put<2>(row, col0 + first_col + j * 8 + 2 * t, {of[j][half], of[j][half + 1]}, own_part);
    } else {
#pragma unroll
      for (int j = 0; j < S::across * 2; ++j) {
        const int group = j / 8 * 4, c = j / 4 % 2;
        if (j % 4 == 0)
          epilogue.template put<4>(
              row, col0 + first_col + group * 8 + 8 * t + 4 * c,
              {of[group][half + c], of[group + 1][half + c], of[group + 2][half + c], of[group + 3][half + c]},
              own_part);
      }
    }
  }
}

constexpr int kProcessors = 132;  // of an H200; only a hint

int64_t tiles_of(int64_t m, int64_t n, int64_t rows, int64_t cols) {
  return (m + rows - 1) / rows * ((n + cols - 1) / cols);
}

template <typename S, bool AK, bool BK, bool Whole, typename T, typename Epilogue>
void launch_tiles(const Product<T>& p, const Epilogue& epilogue, int parts = 1) {
  const int64_t tiles = tiles_of(p.m, p.n, S::rows, Epilogue::kPaired ? S::cols / 2 : S::cols);
  const int steps = static_cast<int>((p.k + 128 / sizeof(T) - 1) / (128 / sizeof(T))) * (Epilogue::kPaired ? 1 : p.pairs);
  auto kernel = &product_tiles<T, S, AK, BK, Whole, Epilogue>;
  constexpr int bytes = S::stage * STAGES;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(parts));
  kernel<<<grid, S::threads, bytes, at::cuda::getCurrentCUDAStream()>>>(p, epilogue, (steps + parts - 1) / parts);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Few results: a warp a result, summed in float64. An error is held against the results' size, and a few of them
// may all be small beside their terms, of which split TF32 numbers lose 2^-21.
template <bool AK, bool BK, typename T, typename U, typename Epilogue>
__global__ void __launch_bounds__(256)
    product_exactly(const __grid_constant__ Product<T, U> p, const __grid_constant__ Epilogue epilogue) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (result >= p.m * p.n) return;
  const int64_t row = result / p.n, col = result % p.n;
  double sum = 0.0, partner = 0.0, column = 0.0;
  for (int pair = 0; pair < (Epilogue::kPaired ? 1 : p.pairs); ++pair)
    for (int64_t k = threadIdx.x % 32; k < p.k; k += 32) {
      const auto left = value_of(p.a[pair][AK ? row * p.lda + k : k * p.lda + row]);
      const int64_t right = BK ? col * p.ldb + k : k * p.ldb + col;
      sum = fma(left, value_of(p.b[pair][right]), sum);
      if constexpr (Epilogue::kPaired) partner = fma(left, value_of(p.b[1][right]), partner);
      column += left;
    }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
    if constexpr (Epilogue::kPaired) partner += __shfl_xor_sync(~0u, partner, step);
    if constexpr (Epilogue::kSums) column += __shfl_xor_sync(~0u, column, step);
  }
  if (threadIdx.x % 32) return;
  if constexpr (Epilogue::kPaired)
    epilogue.put_exact(row, col, sum, partner);
  else
    epilogue.put_exact(row, col, sum);
  if constexpr (Epilogue::kSums)
    if (col == 0) epilogue.put_sum(row, static_cast<float>(column), 0);
}

template <typename T>
bool is_few(const Product<T>& p) {
  if (p.k > 1 << 14) return false;
  return p.m * p.n <= FEW_RESULTS || std::max({p.m, p.n, p.k}) <= SHORT_AXIS;
}

template <bool AK, bool BK, typename T, typename U, typename Epilogue>
void multiply_exactly(const Product<T, U>& p, const Epilogue& epilogue) {
  const auto blocks = static_cast<unsigned>((p.m * p.n + 7) / 8);
  product_exactly<AK, BK><<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(p, epilogue);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
bool whole_chunks(const Product<T>& p) {
  bool whole = p.lda % (16 / sizeof(T)) == 0 && p.ldb % (16 / sizeof(T)) == 0;
  for (int i = 0; i < 2; ++i)
    for (const T* at : {p.a[i], p.b[i]}) whole = whole && reinterpret_cast<uintptr_t>(at) % 16 == 0;
  return whole;
}

// Into how many parts the sums are best divided, so that the last wave of tiles is nearly full.
inline int parts_for(int64_t tiles, int64_t steps) {
  int best = 1;
  double least = 1e30;
  for (int parts = 1; parts <= 16 && steps / parts >= 8; ++parts) {
    const double waves = static_cast<double>((tiles * parts + kProcessors - 1) / kProcessors);
    // A part more costs its results twice through memory: about two steps; and the parts a launch.
    const double cost = waves * (static_cast<double>(steps) / parts + 3) + (parts > 1 ? 10 + 0.02 * tiles * parts : 0);
    if (cost < least * 0.97) least = cost, best = parts;
  }
  const int64_t each = (steps + best - 1) / best;
  return static_cast<int>((steps + each - 1) / each);  // no part is empty
}

// out[i] = Σ of the parts, and the same for the sums.
template <typename T>
__global__ void add_parts(const float* parts, T* out, int64_t count, const float* sum_parts, T* sums, int64_t sum_count,
                          int number) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float* from = i < count ? parts + i : sum_parts + (i - count);
  const int64_t step = i < count ? count : sum_count;
  if (i >= count + sum_count) return;
  float sum = 0.0f;
#pragma unroll 4
  for (int part = 0; part < number; ++part) sum += from[part * step];
  (i < count ? out[i] : sums[i - count]) = static_cast<T>(sum);
}

template <typename T, typename E>
void finish_parts(const E& epilogue, const torch::Tensor& parts, const torch::Tensor& sum_parts, int number) {
  const int64_t count = epilogue.m * epilogue.n, sum_count = E::kSums ? epilogue.m : 0;
  const unsigned blocks = static_cast<unsigned>((count + sum_count + 255) / 256);
  add_parts<T><<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      epilogue.parts, epilogue.out, count, epilogue.sum_parts, epilogue.sums, sum_count, number);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Room for the sums in parts.
template <typename E>
std::pair<torch::Tensor, torch::Tensor> divide(E& epilogue, const torch::Tensor& like, int parts) {
  const auto options = like.options().dtype(torch::kFloat32);
  auto room = torch::empty({parts, epilogue.m, epilogue.n}, options), sums = torch::empty({parts, epilogue.m}, options);
  epilogue.parts = room.template data_ptr<float>(), epilogue.sum_parts = sums.template data_ptr<float>();
  return {room, sums};
}

template <typename E>
struct IsPlain : std::false_type {};
template <typename T, bool Sums>
struct IsPlain<Plain<T, Sums>> : std::true_type {};


// ---------------------------------------------------------------------------------------------------------------------
// Large products of 16-bit numbers by warp groups: one thread has the copy engine fill a ring of tiles, two groups of
// four warps multiply from it. Tiles are as the copy engine writes them with its 128-byte swizzle: k-major ones as rows of
// 64 k's, others as boxes of 64 lines (k's) of 64 m's or n's.
#if STRATEGY == 1

#define WGMMA_192(KIND) \
  "{ .reg .pred p; setp.ne.b32 p, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32." KIND "." KIND " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63," \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
  "}, %96, %97, p, 1, 1, %99, %100; }"
#define WGMMA_SUMS_192 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),  \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),  \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),  \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),  \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),  \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),  \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),  \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),  \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),  \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),  \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WGMMA_256(KIND) \
  "{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32." KIND "." KIND " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63," \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95," \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111," \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
  "}, %128, %129, p, 1, 1, %131, %132; }"
#define WGMMA_SUMS_256 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),  \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),  \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),  \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),  \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),  \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),  \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),  \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),  \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),  \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),  \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),  \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),  \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),  \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),  \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// d (64 × N) = a (64 × 16) · b (16 × N), added to what d was where `keep` is not 0.
template <int N, bool AK, bool BK, typename T>
__device__ __forceinline__ void multiply_group(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {
  if constexpr (N == 192) {
    if constexpr (std::is_same_v<T, at::Half>)
      asm volatile(WGMMA_192("f16") : WGMMA_SUMS_192 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
    else
      asm volatile(WGMMA_192("bf16") : WGMMA_SUMS_192 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
  } else if constexpr (N == 256) {
    if constexpr (std::is_same_v<T, at::Half>)
      asm volatile(WGMMA_256("f16") : WGMMA_SUMS_256 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
    else
      asm volatile(WGMMA_256("bf16") : WGMMA_SUMS_256 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
  }
}

__device__ __forceinline__ void sums_ready() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int Left>
__device__ __forceinline__ void wait_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// Copies a box to shared memory of this block, or to the same place in both blocks of the cluster.
template <bool Both>
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y) {
  if constexpr (Both)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(static_cast<uint16_t>(3))
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y)
        : "memory");
}

// Copies a box of results from shared memory.
__device__ __forceinline__ void send_box(uint32_t from, const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];" ::"r"(from), "l"(map), "r"(x),
               "r"(y)
               : "memory");
}

// Ends a group of boxes that this thread sent, which may be empty.
__device__ __forceinline__ void end_sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the last `Left` groups of boxes have been read.
template <int Left>
__device__ __forceinline__ void wait_sent() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Left) : "memory");
}

__device__ __forceinline__ void store_matrices(uint32_t at, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(from[0]), "r"(from[1]),
               "r"(from[2]), "r"(from[3])
               : "memory");
}

template <int Registers>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// What wgmma is told of a tile: its address, 128-byte swizzle, 1024 bytes from eight rows (k-major) or eight k's to the
// next eight, and where the next 64 m's or n's are.
__device__ __forceinline__ uint64_t tile_at(uint32_t address) {
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(8192 >> 4) << 16 |
         static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void make_barrier(uint32_t at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// Lane i tells block i of the cluster.
__device__ __forceinline__ void arrive(uint32_t at, int lane) {
  if constexpr (CLUSTER == 1) {
    if (lane == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at) : "memory");
  } else if (lane < CLUSTER) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(at),
        "r"(lane)
        : "memory");
  }
}

// What a block did before need not be seen by the others, but for barriers made and fenced.
__device__ __forceinline__ void meet() {
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void expect(uint32_t at, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(at), "r"(bytes) : "memory");
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

template <typename T>
__device__ __forceinline__ uint32_t packed(float low, float high) {
  const T pair[2] = {static_cast<T>(low), static_cast<T>(high)};
  uint32_t word;
  memcpy(&word, pair, 4);
  return word;
}

// One product, and how its tiles are counted.
template <typename Epilogue>
struct Job {
  CUtensorMap a[2], b[2], out;
  int m, n, steps_each, steps, part_steps, parts;
  int down, across, tiles;  // of CLUSTER × 128 rows
  Epilogue epilogue;
};

// Products with operands and results of the same kind.
template <bool AKMajor, typename E, int Count>
struct Jobs {
  static constexpr bool a_k_major = AKMajor, sums = E::kSums;
  static constexpr int count = Count;
  using Epilogue = E;
  Job<E> job[Count];
};
struct NoJobs {
  static constexpr bool sums = false;
  static constexpr int count = 0;
};

// Two kinds of products in one launch. Tiles of the kind with the longer sums come first, dealt out one by one; blocks
// that get one less of them than others have `extra` tiles of the other kind instead; then the rest is dealt out.
template <typename First, typename Second>
struct Work {
  First first;
  Second second;
  bool turned;  // the second kind is the longer one
  int longer, shorter, extra;
  int lag;  // nanoseconds
};

constexpr int kRoom = 227 * 1024;  // shared memory of a block

template <int Cols, bool BK, int Reach>
struct Ring {
  static constexpr int rows = 128, depth = 64, boxes = (Cols + 63) / 64;
  static constexpr int bytes_a = rows * 128, bytes_b = BK ? Cols * 128 : boxes * 8192, stage = bytes_a + bytes_b;
  // Results leave in boxes of 16 rows, each warp's own.
  static constexpr int out_cols = Cols % 64 == 0 ? 64 : 32, rounds = Reach / out_cols, buffers = rounds == 4 ? 2 : rounds;
  static constexpr int out_box = 16 * out_cols * 2, out_bytes = STAGED ? 8 * buffers * out_box : 0;
  static constexpr int fit = (kRoom - 1024 - 256 - out_bytes) / stage, stages = fit > 6 ? 6 : fit;
  static constexpr int bytes = stages * stage + out_bytes + 1024 + 256;
};

constexpr int kBand = BAND / CLUSTER, kUnits = UNITS;

template <typename T, int Cols, bool BK, typename First, typename Second>
__global__ void __launch_bounds__(384, 1) product_groups(const __grid_constant__ Work<First, Second> w) {
  constexpr int reach = First::Epilogue::kPaired ? Cols / 2 : Cols;
  constexpr bool share = CLUSTER == 2 && MULTICAST;
  constexpr int helpers = First::sums || Second::sums ? 2 : First::Epilogue::kWide ? 1 : 0;  // warps beside the groups
  using R = Ring<Cols, BK, reach>;
  extern __shared__ char memory[];
  const uint32_t base = (shared_address(memory) + 1023) & ~1023u, sent = base + R::stages * R::stage;
  const uint32_t full = sent + R::out_bytes, empty = full + 8 * R::stages;
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // told so, the compiler knows that a warp has but one
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
  if (threadIdx.x == 0) {
    for (int i = 0; i < R::stages; ++i) {
      make_barrier(full + 8 * i, 1);
      make_barrier(empty + 8 * i, (8 + helpers) * CLUSTER);  // warps that read a tile
    }
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" ::: "memory");
  }
  const auto prefetch = [](const CUtensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); };
  if (threadIdx.x == 32) {
    prefetch(&w.first.job[0].a[0]), prefetch(&w.first.job[0].b[0]);
    if constexpr (Second::count > 0) prefetch(&w.second.job[0].a[0]), prefetch(&w.second.job[0].b[0]);
  }
  meet();
  int stage = 0;
  uint32_t phase = 0;
  const auto next = [&] {
    if (++stage == R::stages) stage = 0, phase ^= 1;
  };
  // Calls `visit(jobs, job, row0, col0, begin, end, part)` for tile i of some jobs, in bands of rows for the L2's sake.
  const auto visit_tile = [&](const auto& jobs, int i, const auto& visit) {
    int j = 0;
    if constexpr (std::decay_t<decltype(jobs)>::count > 1)
      while (i >= jobs.job[j].tiles * jobs.job[j].parts) i -= jobs.job[j].tiles * jobs.job[j].parts, ++j;
    const auto& job = jobs.job[j];
    const int part = i / job.tiles, tile = i % job.tiles, band = tile / (kBand * job.across);
    const int band_rows = min(kBand, job.down - band * kBand), inside = tile - band * kBand * job.across;
    visit(jobs, job, ((band * kBand + inside % band_rows) * CLUSTER + rank) * 128, inside / band_rows * reach,
          part * job.part_steps, min((part + 1) * job.part_steps, job.steps), part);
  };
  const auto each_tile = [&](const auto& visit) {
    const int unit = blockIdx.x / CLUSTER, units = gridDim.x / CLUSTER;
    if constexpr (Second::count == 0) {
#pragma unroll 1
      for (int i = unit; i < w.longer; i += units) visit_tile(w.first, i, visit);
    } else {
      const int busy = w.longer % units, idle = units - busy, place = unit < busy ? unit + idle : unit - busy;
      const int ahead = min(w.extra * idle, w.shorter);
      bool later = false;
      int i = unit;
#pragma unroll 1
      while (true) {
        if (!later && i >= w.longer) later = true, i = place < min(idle, ahead) ? place : ahead + place;
        if (later && i >= w.shorter) break;
        if (later == w.turned)
          visit_tile(w.first, i, visit);
        else
          visit_tile(w.second, i, visit);
        if (later && i < ahead)
          i = i + idle < ahead ? i + idle : ahead + place;
        else
          i += units;
      }
    }
  };

  if (group == 0) {
    fewer_registers<40>();
    if (threadIdx.x == 0) {
      each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int) {
        using E = typename std::decay_t<decltype(jobs)>::Epilogue;
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(empty + 8 * stage, phase ^ 1);
          const uint32_t to = base + stage * R::stage, to_b = to + R::bytes_a, ready = full + 8 * stage;
          const int second = step >= job.steps_each;
          const int k0 = (second ? step - job.steps_each : step) * 64;
          const CUtensorMap *a = &job.a[second], *b = &job.b[second];
          expect(ready, R::stage);
          if constexpr (std::decay_t<decltype(jobs)>::a_k_major) {
            copy_box<false>(to, a, ready, k0, row0);
          } else {
            for (int i = 0; i < 2; ++i) copy_box<false>(to + i * 8192, a, ready, row0 + 64 * i, k0);
          }
          // Of what a cluster shares, each block copies a part, to both.
          if constexpr (E::kPaired) {
            for (int i = 0; i < 2; ++i)
              if (!share || i == rank) copy_box<share>(to_b + i * Cols / 2 * 128, &job.b[i], ready, k0, col0);
          } else if constexpr (BK) {
            constexpr int part = Cols / CLUSTER;
            for (int i = 0; i < CLUSTER; ++i)
              if (!share || i == rank) copy_box<share>(to_b + i * part * 128, b, ready, k0, col0 + i * part);
          } else {
            constexpr int part = 64 / CLUSTER;
            for (int i = 0; i < CLUSTER; ++i)
              if (!share || i == rank)
                for (int j = 0; j < R::boxes; ++j)
                  copy_box<share>(to_b + j * 8192 + i * part * 128, b, ready, col0 + 64 * j, k0 + i * part);
          }
          next();
        }
      });
    } else if (warp >= 1 && warp <= helpers) {
      // Warps that would be idle: two add up the first operand over the sum's axis, or one
      // sees to it that what results need is in the L2.
      each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int part) {
        // Every column of tiles has the same first operand. Where there are two columns each sees to 64 m's, a warp to 32:
        // four lanes to a line, eight lines at once; else a warp to 64, eight lanes to a line.
        const bool two = job.across > 1, wanted = std::decay_t<decltype(jobs)>::sums && (!two || col0 < 2 * reach);
        const int box = two ? col0 > 0 : warp - 1, part_box = two ? warp - 1 : 0;
        const int line = two ? lane / 4 % 2 * 4 + lane / 8 : lane / 8, own_chunk = two ? part_box * 4 + lane % 4 : lane % 8;
        float total[8] = {};  // of eight neighbouring m's
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(full + 8 * stage, phase);
          if constexpr (std::decay_t<decltype(jobs)>::Epilogue::kWide)
            job.epilogue.template expect_tile<Cols>(row0, col0, step - begin, end - begin);
          if (wanted) {
            uint32_t at = base + stage * R::stage + box * 8192 + line * 128 + ((own_chunk ^ line) << 4);
            const uint32_t on = two ? 1024 : 512 + (((own_chunk ^ line ^ 4) << 4) - ((own_chunk ^ line) << 4));
#pragma unroll 2
            for (int k = 0; k < (two ? 4 : 8); ++k, at += two ? 2048 : 1024) {
              uint32_t word[8];
#pragma unroll
              for (int e = 0; e < 2; ++e)
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(word[4 * e]), "=r"(word[4 * e + 1]), "=r"(word[4 * e + 2]), "=r"(word[4 * e + 3])
                             : "r"(e ? at + on : at));
#pragma unroll
              for (int e = 0; e < 8; ++e) {
                T pair[2];
                memcpy(pair, &word[e], 4);
                total[e % 4 * 2] += static_cast<float>(pair[0]), total[e % 4 * 2 + 1] += static_cast<float>(pair[1]);
              }
            }
          }
          __syncwarp();
          arrive(empty + 8 * stage, lane);
          next();
        }
        if constexpr (std::decay_t<decltype(jobs)>::sums)
          if (wanted) {
#pragma unroll
            for (int e = 0; e < 8; ++e) {
              total[e] += __shfl_xor_sync(~0u, total[e], 8);
              total[e] += __shfl_xor_sync(~0u, total[e], 16);
              if (two) total[e] += __shfl_xor_sync(~0u, total[e], 4);
              if (lane < (two ? 4 : 8)) job.epilogue.put_sum(row0 + box * 64 + 8 * own_chunk + e, total[e], part);
            }
          }
      });
    }
  } else {
    more_registers<232>();
    const int own = group - 1, g = lane / 4, t = lane % 4;
    // The second group begins a little later: while the first is busy with the end of a tile it has the tensor cores for
    // itself, and the other way round.
    if (own == 1 && w.lag) {
      wait_phase(full, 0);
      __nanosleep(w.lag);
    }
    each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int part) {
      using J = std::decay_t<decltype(jobs)>;
      using E = typename J::Epilogue;
      constexpr bool AK = J::a_k_major;
      const E& epilogue = job.epilogue;
      const int row = row0 + own * 64 + warp * 16 + g;
      // What the results need is asked for early.
      uint32_t added[E::kBias ? reach / 8 : 1];
      if constexpr (E::kBias) {
#pragma unroll
        for (int j = 0; j < reach / 8; ++j) added[j] = epilogue.added(col0 + 8 * j + 2 * t);
      }
      constexpr int deep = E::kWide ? 4 : 1;  // places whose values are on their way; place: half · reach / 32 + column / 32
      uint4 asked[deep][2];
      const int64_t corner = static_cast<int64_t>(row) * job.n + col0 + 8 * t;
      const auto inside = [&](int place) {
        return row + place / (reach / 32) * 8 < job.m && col0 + place % (reach / 32) * 32 + 8 * t < job.n;
      };
      const auto at_place = [&](int place) {
        return corner + (place < reach / 32 ? 0 : 8 * static_cast<int64_t>(job.n)) + place % (reach / 32) * 32;
      };
      const auto ask = [&](int place) {
        if constexpr (E::kWide)
          if (inside(place)) epilogue.ask(at_place(place), asked[place % deep]);
      };
      if constexpr (E::kWide) {
#pragma unroll
        for (int i = 0; i < deep; ++i) ask(i);
      }
      float sum[Cols / 2];
      int before = -1;
#pragma unroll 1
      for (int step = begin; step < end; ++step) {
        wait_phase(full + 8 * stage, phase);
        const uint32_t at = base + stage * R::stage;
        const uint64_t a = tile_at(at + own * 8192), b = tile_at(at + R::bytes_a);
        sums_ready();
#pragma unroll
        for (int k = 0; k < 4; ++k)  // 16 k's on: 32 bytes along a row, or 16 lines
          multiply_group<Cols, AK, BK, T>(sum, a + k * (AK ? 32 : 2048) / 16, b + k * (BK ? 32 : 2048) / 16,
                                          step > begin || k > 0);
        close_group();
        wait_groups<1>();  // the step before is done with its tile
        if (before >= 0) arrive(empty + 8 * before, lane);
        before = stage;
        next();
      }
      wait_groups<0>();
      if (before >= 0) arrive(empty + 8 * before, lane);

      if constexpr (IsPlain<E>::value) {
        if (epilogue.parts) {
#pragma unroll
          for (int i = 0; i < reach / 4; ++i)
            epilogue.put_part(row + i % 2 * 8, col0 + i / 2 * 8 + 2 * t, sum[2 * i], sum[2 * i + 1], part);
          return;
        }
      }
      // Two neighbouring results of a lane, as they are stored.
      const auto pair_at = [&](int j, int half) {
        float two[2] = {sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]};
        if constexpr (E::kPaired) epilogue.join(two, sum[4 * j + 2 * half + Cols / 4], sum[4 * j + 2 * half + Cols / 4 + 1]);
        if constexpr (E::kBias) epilogue.change(added[j], two);
        return packed<T>(two[0], two[1]);
      };
      if constexpr (E::kWide) {  // each lane gets eight neighbouring results
#pragma unroll
        for (int place = 0; place < reach / 16; ++place) {
          const int half = place / (reach / 32), j = place % (reach / 32) * 4;
          float eight[8];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) word[i] = __float_as_uint(sum[4 * (j + i) + 2 * half + e]);
            turn(word);
#pragma unroll
            for (int i = 0; i < 4; ++i) eight[2 * i + e] = __uint_as_float(word[i]);
          }
          if (inside(place)) epilogue.put_asked(at_place(place), eight, asked[place % deep]);
          if (place + deep < reach / 16) ask(place + deep);
        }
      } else if constexpr (STAGED) {
        const uint32_t room = sent + (own * 4 + warp) * R::buffers * R::out_box;
        const int line = lane % 16, chunk = lane / 16;
#pragma unroll
        for (int round = 0; round < R::rounds; ++round) {
          const uint32_t box = room + round % R::buffers * R::out_box;
          if (lane == 0) wait_sent<R::buffers - 1>();
          __syncwarp();
#pragma unroll
          for (int i = 0; i < R::out_cols / 16; ++i) {
            const int j = round * (R::out_cols / 8) + 2 * i, turned = R::out_cols == 64 ? line & 7 : line >> 1 & 3;
            store_matrices(box + line * R::out_cols * 2 + (((2 * i + chunk) ^ turned) << 4),
                           {pair_at(j, 0), pair_at(j, 1), pair_at(j + 1, 0), pair_at(j + 1, 1)});
          }
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          __syncwarp();
          const int x = col0 + round * R::out_cols, y = row0 + own * 64 + warp * 16;
          if (lane == 0 && x < job.n && y < job.m) send_box(box, &job.out, x, y);
          if (lane == 0) end_sent();  // of a box outside too: the waits count rounds
        }
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < reach / 8; j += 4) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) word[i] = pair_at(j + i, half);
            turn(word);
            const int64_t to = row + 8 * half, col = col0 + 8 * (j + t);
            if (to < job.m && col < job.n)
              *reinterpret_cast<uint4*>(epilogue.out + to * job.n + col) = make_uint4(word[0], word[1], word[2], word[3]);
          }
        }
      }
    });
    if (STAGED && lane == 0) wait_sent<0>();  // shared memory is read until then
  }
  if constexpr (CLUSTER > 1) meet();  // and written by the other block
}

// The map of an operand of `lines` lines of `length` elements, in boxes of `across` elements by `box` lines.
template <typename T>
CUtensorMap map_of(const T* at, int64_t length, int64_t lines, int box, int across = 64) {
  warpsmith::TiledMap kind;
  kind.data_type = std::is_same_v<T, at::Half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  kind.swizzle = across == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  kind.l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  const uint64_t sizes[2] = {static_cast<uint64_t>(length), static_cast<uint64_t>(lines)};
  const uint64_t strides[1] = {static_cast<uint64_t>(length) * sizeof(T)};
  const uint32_t boxes[2] = {static_cast<uint32_t>(across), static_cast<uint32_t>(box)}, steps[2] = {1, 1};
  return warpsmith::encode_tiled(kind, 2, const_cast<T*>(at), sizes, strides, boxes, steps);
}

template <int Cols, bool AK, bool BK, typename T, typename E>
Job<E> job_of(Product<T> p, const E& epilogue, int parts) {
  constexpr int reach = E::kPaired ? Cols / 2 : Cols;
  Job<E> job = {};
  for (int i = 0; i < (E::kPaired ? 2 : p.pairs); ++i) {
    if (i == 0 || !E::kPaired) job.a[i] = AK ? map_of(p.a[i], p.k, p.m, 128) : map_of(p.a[i], p.m, p.k, 64);
    job.b[i] = BK ? map_of(p.b[i], p.k, p.n, E::kPaired ? reach : Cols / CLUSTER) : map_of(p.b[i], p.n, p.k, 64 / CLUSTER);
  }
  if constexpr (STAGED && !E::kWide)
    if (parts == 1) job.out = map_of(epilogue.out, p.n, p.m, 16, Ring<Cols, BK, reach>::out_cols);
  job.m = static_cast<int>(p.m), job.n = static_cast<int>(p.n);
  job.steps_each = static_cast<int>((p.k + 63) / 64);
  job.steps = job.steps_each * (E::kPaired ? 1 : p.pairs);
  job.parts = parts, job.part_steps = (job.steps + parts - 1) / parts;
  job.down = static_cast<int>((p.m + 128 * CLUSTER - 1) / (128 * CLUSTER));
  job.across = static_cast<int>((p.n + reach - 1) / reach);
  job.tiles = job.down * job.across;
  job.epilogue = epilogue;
  return job;
}

template <typename T, int Cols, bool BK, typename First, typename Second>
void launch_groups(const Work<First, Second>& work) {
  auto kernel = &product_groups<T, Cols, BK, First, Second>;
  constexpr int bytes = Ring<Cols, BK, First::Epilogue::kPaired ? Cols / 2 : Cols>::bytes;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = CLUSTER;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min(work.longer + work.shorter, kUnits) * CLUSTER));
  config.blockDim = dim3(384);
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &cluster;
  config.numAttrs = CLUSTER > 1 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, work));
}

// What of STRATEGY 1 is shared by all shapes.
template <typename T, typename Epilogue>
bool groups_take(const Product<T>& p, const Epilogue& epilogue) {
  bool whole = whole_chunks(p) && p.n % 8 == 0;
  if constexpr (Epilogue::kWide || Epilogue::kBias) whole = whole && epilogue.whole;
  return whole;
}

// Sums so short that the ends of tiles matter.
inline int lag_of(int64_t steps) { return steps <= 24 ? LAG : 0; }

template <typename Call>
void with_width(int cols, const Call& call) {
  if (cols == 256)
    call(std::integral_constant<int, 256>());
  else
    call(std::integral_constant<int, MIDDLE>());
}

// A step of a tile of so many columns, in about 2 nanoseconds; and the time that a tile takes besides its steps, in steps.
inline double step_cost(int cols) { return cols + 40; }
constexpr int kTileCost = 4;

// What a sum in parts costs besides: the parts through memory, and a launch.
inline double parts_cost(int64_t m, int64_t n, int parts) {
  return parts == 1 ? 0.0 : 450.0 * (3.0 + static_cast<double>(m * n * parts) * 2e-6);
}

inline int whole_parts(int64_t steps, int parts) {  // no part is empty
  const int64_t each = (steps + parts - 1) / parts;
  return static_cast<int>((steps + each - 1) / each);
}

// Whether warp groups take it; then it is done.
template <bool AK, bool BK, typename T, typename Epilogue>
bool multiply_groups(const Product<T>& p, Epilogue epilogue, const torch::Tensor& like) {
  if (!groups_take(p, epilogue) || p.m * p.n * p.k < GROUP_STEPS) return false;
  const int64_t steps = (p.k + 63) / 64 * (Epilogue::kPaired ? 1 : p.pairs);
  int best = 256, best_parts = 1;
  if constexpr (!Epilogue::kPaired) {
    double least = 1e30;
    for (const int cols : {256, MIDDLE})
      for (int parts = 1; parts <= (IsPlain<Epilogue>::value ? 16 : 1) && (parts == 1 || steps / parts >= 8); ++parts) {
        if (WIDTH && cols != WIDTH) continue;
        const int64_t rounds = (tiles_of(p.m, p.n, 128 * CLUSTER, cols) * parts + kUnits - 1) / kUnits;
        const double cost = static_cast<double>(rounds * ((steps + parts - 1) / parts + kTileCost)) * step_cost(cols) +
                            parts_cost(p.m, p.n, parts);
        if (cost < least) least = cost, best = cols, best_parts = whole_parts(steps, parts);
      }
  }
  std::pair<torch::Tensor, torch::Tensor> room;
  if constexpr (IsPlain<Epilogue>::value)
    if (best_parts > 1) room = divide(epilogue, like, best_parts);
  const auto launch = [&](auto width) {
    constexpr int cols = decltype(width)::value;
    Work<Jobs<AK, Epilogue, 1>, NoJobs> work = {};
    work.first.job[0] = job_of<cols, AK, BK>(p, epilogue, best_parts);
    work.longer = work.first.job[0].tiles * best_parts;
    work.lag = lag_of(work.first.job[0].part_steps);
    launch_groups<T, cols, BK>(work);
  };
  if constexpr (Epilogue::kPaired)
    launch(std::integral_constant<int, 256>());
  else
    with_width(best, launch);
  if constexpr (IsPlain<Epilogue>::value)
    if (best_parts > 1) finish_parts<T>(epilogue, room.first, room.second, best_parts);
  return true;
}

#if JOINED
// How long Work takes: so many tiles of two kinds and what one of each costs.
inline int64_t time_of(int64_t longer, int64_t cost, int64_t shorter, int64_t other_cost) {
  const int64_t busy = longer % kUnits, idle = kUnits - busy, rounds = longer / kUnits;
  const int64_t extra = busy ? cost / other_cost : 0, ahead = std::min(extra * idle, shorter), rest = shorter - ahead;
  const int64_t others = rest / kUnits, left = rest % kUnits;
  const int64_t of_idle = rounds * cost + ((ahead + idle - 1) / idle + others + (left > 0)) * other_cost;
  const int64_t of_busy = (rounds + (busy > 0)) * cost + (others + (left > idle)) * other_cost;
  return std::max(of_idle, of_busy);
}

// One product and several others in one launch, if warp groups take them.
template <typename T, typename E, typename Other, int Count>
bool multiply_joined(const Product<T>& p, const E& epilogue, const Product<T> (&others)[Count], Other (&to)[Count],
                     const torch::Tensor& like) {
  bool taken = groups_take(p, epilogue) && p.m * p.n * p.k >= GROUP_STEPS;
  for (int i = 0; i < Count; ++i) taken = taken && groups_take(others[i], to[i]);
  if (!taken) return false;
  const int64_t steps = (p.k + 63) / 64 * p.pairs, other_steps = (others[0].k + 63) / 64;  // the same k for all others
  int best = 256, best_parts = 1;
  double least = 1e30;
  for (const int cols : {256, MIDDLE})
    for (int parts = 1; parts <= (Count == 1 ? 16 : 1) && (parts == 1 || other_steps / parts >= 8); ++parts) {
      if (WIDTH && cols != WIDTH) continue;
      int64_t tiles = tiles_of(p.m, p.n, 128 * CLUSTER, cols), other_tiles = 0;
      for (const auto& other : others) other_tiles += tiles_of(other.m, other.n, 128 * CLUSTER, cols) * parts;
      const int64_t cost = steps + kTileCost, other_cost = (other_steps + parts - 1) / parts + kTileCost;
      const int64_t time = cost >= other_cost ? time_of(tiles, cost, other_tiles, other_cost)
                                              : time_of(other_tiles, other_cost, tiles, cost);
      const double total = static_cast<double>(time) * step_cost(cols) + parts_cost(others[0].m, others[0].n, parts);
      if (total < least) least = total, best = cols, best_parts = whole_parts(other_steps, parts);
    }
  std::pair<torch::Tensor, torch::Tensor> room;
  if (best_parts > 1) room = divide(to[0], like, best_parts);
  with_width(best, [&](auto width) {
    constexpr int cols = decltype(width)::value;
    Work<Jobs<true, E, 1>, Jobs<false, Other, Count>> work = {};
    work.first.job[0] = job_of<cols, true, false>(p, epilogue, 1);
    const int tiles = work.first.job[0].tiles;
    int other_tiles = 0;
    for (int i = 0; i < Count; ++i) {
      work.second.job[i] = job_of<cols, false, false>(others[i], to[i], best_parts);
      other_tiles += work.second.job[i].tiles * best_parts;
    }
    const int cost = static_cast<int>(steps) + kTileCost, other_cost = work.second.job[0].part_steps + kTileCost;
    work.turned = other_cost > cost;
    work.longer = work.turned ? other_tiles : tiles, work.shorter = work.turned ? tiles : other_tiles;
    const bool even = work.longer % kUnits == 0;
    work.extra = even ? 0 : work.turned ? other_cost / cost : cost / other_cost;
    work.lag = lag_of(std::min(cost, other_cost) - kTileCost);
    launch_groups<T, cols, false>(work);
  });
  if (best_parts > 1) finish_parts<T>(to[0], room.first, room.second, best_parts);
  return true;
}
#endif
#endif

// The tile by the size of the product.
template <bool AK, bool BK, typename T, typename Epilogue>
void multiply(Product<T> p, Epilogue epilogue, const torch::Tensor& like) {
  if (p.pairs == 1 && !Epilogue::kPaired) p.a[1] = p.a[0], p.b[1] = p.b[0];
  if constexpr (sizeof(T) == 4)
    if (is_few(p)) return multiply_exactly<AK, BK>(p, epilogue);
#if STRATEGY == 1
  if constexpr (sizeof(T) == 2 && !(JOINED && IsPlain<Epilogue>::value))
    if (multiply_groups<AK, BK>(p, epilogue, like)) return;
#endif
  if (!whole_chunks(p)) {
    launch_tiles<Small, AK, BK, false>(p, epilogue);
    return;
  }
  const int width = Epilogue::kPaired ? 2 : 1;
  const int64_t large = tiles_of(p.m, p.n, 128, 128 / width);
  const int64_t steps = (p.k * sizeof(T) + 127) / 128 * (Epilogue::kPaired ? 1 : p.pairs);
  // The large tile would be half empty at the edge of a narrow result.
  const int64_t edge = p.n * width % 128;
  const bool slim = sizeof(T) == 4 && (!WIDE || (edge > 0 && edge <= 64 && p.n * width < 1024));
  if constexpr (IsPlain<Epilogue>::value) {
    const int parts = large >= 4 * kProcessors ? 1 : parts_for(large, steps);
    if (large >= 4 && parts > 1 && large * parts >= BIG_TILES) {
      const auto room = divide(epilogue, like, parts);
      if (slim)
        launch_tiles<Slim, AK, BK, true>(p, epilogue, parts);
      else
        launch_tiles<Large, AK, BK, true>(p, epilogue, parts);
      finish_parts<T>(epilogue, room.first, room.second, parts);
      return;
    }
  }
  if (large < BIG_TILES)
    launch_tiles<Small, AK, BK, true>(p, epilogue);
  else if (slim)
    launch_tiles<Slim, AK, BK, true>(p, epilogue);
  else
    launch_tiles<Large, AK, BK, true>(p, epilogue);
}

// ---------------------------------------------------------------------------------------------------------------------
// Small float32 products: a launch and one trip to memory are most of the time, so every warp reads its share of the
// sum straight into registers, and the shares are added at the end.

// Elements k to k + 3 of a row, zeros outside.
template <bool KMajor, bool Whole>
__device__ __forceinline__ float4 four(const float* from, int64_t ld, int64_t row, int64_t rows, int64_t k, int64_t ks) {
  float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (row >= rows) return value;
  if constexpr (KMajor && Whole) {
    if (k < ks) value = __ldg(reinterpret_cast<const float4*>(from + row * ld + k));
  } else {
    const int64_t step = KMajor ? 1 : ld;
    const float* at = KMajor ? from + row * ld + k : from + k * ld + row;
    if (k < ks) value.x = __ldg(at);
    if (k + 1 < ks) value.y = __ldg(at + step);
    if (k + 2 < ks) value.z = __ldg(at + 2 * step);
    if (k + 3 < ks) value.w = __ldg(at + 3 * step);
  }
  return value;
}

constexpr int kTinyWarps = 8;

// A tile of 16 rows by `reach` columns. Shares of the warps go over blocks of 16 k's; a lane has four k's in a row, which
// permutes the k's of two steps of the tensor core, for both operands alike. `gate` is applied to the first operand.
template <int Tiles, int Shares, bool AK, bool BK, bool Whole, typename Epilogue, typename Gate>
__device__ __forceinline__ void tiny_tile(const Product<float>& p, const Epilogue& epilogue, int tile, const Gate& gate) {
  constexpr int side = kTinyWarps / Shares, width = 8 * Tiles, reach = width * side / (Epilogue::kPaired ? 2 : 1);
  constexpr int batch = Tiles > 2 ? 2 : 4;
  __shared__ float shares[kTinyWarps][16][width + 2];
  __shared__ float sums[kTinyWarps][16];
  const int across = static_cast<int>((p.n + reach - 1) / reach);
  const int64_t row0 = static_cast<int64_t>(tile / across) * 16, col0 = static_cast<int64_t>(tile % across) * reach;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, share = warp % Shares;
  const int64_t own_col = col0 + warp / Shares * (Epilogue::kPaired ? width / 2 : width);
  float sum[Tiles][2][4] = {};
  float low = 0.0f, high = 0.0f;
#pragma unroll 1
  for (int pair = 0; pair < (Epilogue::kPaired ? 1 : p.pairs); ++pair) {
#pragma unroll 1
    for (int64_t k0 = share * 16; k0 < p.k; k0 += Shares * 16 * batch) {
      float4 a[batch][2], b[batch][Tiles];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int64_t k = k0 + i * Shares * 16 + 4 * t;
#pragma unroll
        for (int h = 0; h < 2; ++h)
          a[i][h] = four<AK, Whole>(p.a[pair], p.lda, row0 + g + 8 * h, p.m, k, p.k);
#pragma unroll
        for (int j = 0; j < Tiles; ++j) {
          const bool partner = Epilogue::kPaired && j % 2;
          b[i][j] = four<BK, Whole>(p.b[partner ? 1 : pair], p.ldb, own_col + (Epilogue::kPaired ? j / 2 : j) * 8 + g,
                                    p.n, k, p.k);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) a[i][h] = gate(a[i][h], row0 + g + 8 * h, k);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        low += (a[i][0].x + a[i][0].y) + (a[i][0].z + a[i][0].w);
        high += (a[i][1].x + a[i][1].y) + (a[i][1].z + a[i][1].w);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const float4 &up = a[i][0], &down = a[i][1];
          const float left[4] = {step ? up.z : up.x, step ? down.z : down.x, step ? up.w : up.y, step ? down.w : down.y};
          uint32_t big[4], small[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) split(__float_as_uint(left[e]), big[e], small[e]);
#pragma unroll
          for (int j = 0; j < Tiles; ++j) {
            uint32_t right[2], rest[2];
            split(__float_as_uint(step ? b[i][j].z : b[i][j].x), right[0], rest[0]);
            split(__float_as_uint(step ? b[i][j].w : b[i][j].y), right[1], rest[1]);
            multiply_add<float>(sum[j][0], small, rest);
            multiply_add<float>(sum[j][0], small, right);
            multiply_add<float>(sum[j][0], big, rest);
            multiply_add<float>(sum[j][1], big, right);
          }
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < Tiles; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) shares[warp][g + e / 2 * 8][8 * j + 2 * t + e % 2] = sum[j][0][e] + sum[j][1][e];
  if constexpr (Epilogue::kSums) {
    low += __shfl_xor_sync(~0u, low, 1), high += __shfl_xor_sync(~0u, high, 1);
    low += __shfl_xor_sync(~0u, low, 2), high += __shfl_xor_sync(~0u, high, 2);
    if (t == 0) sums[warp][g] = low, sums[warp][g + 8] = high;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * reach; i += kTinyWarps * 32) {
    const int row = i / reach, col = i % reach;
    constexpr int own = Epilogue::kPaired ? width / 2 : width;  // columns of a warp
    const int from = col / own * Shares, inside = Epilogue::kPaired ? col % own / 8 * 16 + col % 8 : col % own;
    float value = 0.0f, partner = 0.0f;
#pragma unroll
    for (int s = 0; s < Shares; ++s) {
      value += shares[from + s][row][inside];
      if constexpr (Epilogue::kPaired) partner += shares[from + s][row][inside + 8];
    }
    if constexpr (Epilogue::kPaired)
      epilogue.template put_pairs<1>(row0 + row, col0 + col, {value}, {partner});
    else
      epilogue.template put<1>(row0 + row, col0 + col, {value}, 0);
  }
  if constexpr (Epilogue::kSums)
    if (col0 == 0 && threadIdx.x < 16) {
      float value = 0.0f;
      for (int s = 0; s < Shares; ++s) value += sums[s][threadIdx.x];
      epilogue.put_sum(row0 + threadIdx.x, value, 0);
    }
}

struct Open {  // no gate
  __device__ float4 operator()(float4 value, int64_t, int64_t) const { return value; }
};

template <int Tiles, int Shares, typename Epilogue>
int64_t tiny_tiles(const Product<float>& p) {
  return tiles_of(p.m, p.n, 16, 8 * Tiles * (kTinyWarps / Shares) / (Epilogue::kPaired ? 2 : 1));
}

template <int Tiles, int Shares, bool AK, bool BK, bool Whole, typename Epilogue>
__global__ void __launch_bounds__(kTinyWarps * 32)
    tiny_product(const __grid_constant__ Product<float> p, const __grid_constant__ Epilogue epilogue) {
  tiny_tile<Tiles, Shares, AK, BK, Whole>(p, epilogue, blockIdx.x, Open());
}

inline bool is_tiny(int64_t m, int64_t n, int64_t k) { return m * n <= TINY_RESULTS && m * n * k <= TINY_STEPS; }

template <int Tiles, int Shares, bool AK, bool BK, typename Epilogue>
void multiply_tiny(Product<float> p, const Epilogue& epilogue) {
  if (p.pairs == 1 && !Epilogue::kPaired) p.a[1] = p.a[0], p.b[1] = p.b[0];
  if (is_few(p)) return multiply_exactly<AK, BK>(p, epilogue);
  auto kernel = whole_chunks(p) ? &tiny_product<Tiles, Shares, AK, BK, true, Epilogue>
                                : &tiny_product<Tiles, Shares, AK, BK, false, Epilogue>;
  const auto blocks = static_cast<unsigned>(tiny_tiles<Tiles, Shares, Epilogue>(p));
  kernel<<<blocks, kTinyWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(p, epilogue);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Both gradients of a small layer in one launch: blocks below `first` make grad_x, the others grad_weight and grad_bias.
template <bool Whole>
__global__ void __launch_bounds__(kTinyWarps * 32)
    tiny_gradients(const __grid_constant__ Product<float> by_x, const __grid_constant__ Plain<float> to_x,
                   const __grid_constant__ Product<float> by_weight,
                   const __grid_constant__ Plain<float, true> to_weight, int first) {
  if (blockIdx.x < first)
    tiny_tile<2, 8, true, false, Whole>(by_x, to_x, blockIdx.x, Open());
  else
    tiny_tile<2, 4, false, false, Whole>(by_weight, to_weight, blockIdx.x - first, Open());
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight,
                                    torch::Tensor bias) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  const int64_t inner = x.size(-1), cols = weight.size(0), rows = x.numel() / inner;
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const auto make = [&](auto zero) {
    using T = decltype(zero);
    const T *grad = grad_out.data_ptr<T>(), *from = x.data_ptr<T>(), *by = weight.data_ptr<T>();
    const Product<T> by_x = {{grad, grad}, {by, by}, rows, inner, cols, cols, inner};
    const Product<T> by_weight = {{grad, grad}, {from, from}, cols, inner, rows, cols, inner};
    const Plain<T> to_x = {grad_x.data_ptr<T>(), rows, inner};
    Plain<T, true> to_weight = {grad_weight.data_ptr<T>(), cols, inner};
    to_weight.sums = grad_bias.data_ptr<T>();
    if constexpr (std::is_same_v<T, float>)
      if (is_tiny(rows, inner, cols) && is_tiny(cols, inner, rows) && !is_few(by_x) && !is_few(by_weight)) {
        const auto first = tiny_tiles<2, 8, Plain<float>>(by_x);
        const auto blocks = static_cast<unsigned>(first + tiny_tiles<2, 4, Plain<float>>(by_weight));
        auto kernel = whole_chunks(by_x) && whole_chunks(by_weight) ? &tiny_gradients<true> : &tiny_gradients<false>;
        kernel<<<blocks, kTinyWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(by_x, to_x, by_weight, to_weight,
                                                                                 static_cast<int>(first));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        return;
      }
#if STRATEGY == 1 && JOINED
    if constexpr (sizeof(T) == 2) {
      const Product<T> others[1] = {by_weight};
      Plain<T, true> to_others[1] = {to_weight};
      if (multiply_joined(by_x, to_x, others, to_others, x)) return;
    }
#endif
    multiply<true, false>(by_x, to_x, x);
    multiply<false, false>(by_weight, to_weight, x);
  };
  if (x.scalar_type() == at::kFloat)
    make(0.0f);
  else if (x.scalar_type() == at::kHalf)
    make(at::Half());
  else {
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float types only");
    make(at::BFloat16());
  }
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
