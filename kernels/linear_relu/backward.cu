// Gradients of a linear layer with ReLU: the gate, then tiles through a ring of shared memory to the tensor cores.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa).
// The bias' gradient is summed from the tiles that the weight's gradient reads.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

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

// The tile by the size of the product.
template <bool AK, bool BK, typename T, typename Epilogue>
void multiply(Product<T> p, Epilogue epilogue, const torch::Tensor& like) {
  if (p.pairs == 1 && !Epilogue::kPaired) p.a[1] = p.a[0], p.b[1] = p.b[0];
  if constexpr (sizeof(T) == 4)
    if (is_few(p)) return multiply_exactly<AK, BK>(p, epilogue);
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

// The gradient where the output was above zero.
template <bool KMajor, bool Whole>
struct Gated {
  const float* out;
  int64_t ld, rows, ks;
  __device__ float4 operator()(float4 value, int64_t row, int64_t k) const {
    const float4 kept = four<KMajor, Whole>(out, ld, row, rows, k, ks);
    return make_float4(kept.x > 0.0f ? value.x : 0.0f, kept.y > 0.0f ? value.y : 0.0f,
                       kept.z > 0.0f ? value.z : 0.0f, kept.w > 0.0f ? value.w : 0.0f);
  }
};

// The same for a whole gradient, before large products read it several times; four elements a thread.
__global__ void gate_gradient(const float* grad, const float* out, float* to, int64_t count, bool whole) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (whole && i < count) {
    const float4 g = *reinterpret_cast<const float4*>(grad + i), o = *reinterpret_cast<const float4*>(out + i);
    *reinterpret_cast<float4*>(to + i) = make_float4(o.x > 0.0f ? g.x : 0.0f, o.y > 0.0f ? g.y : 0.0f,
                                                     o.z > 0.0f ? g.z : 0.0f, o.w > 0.0f ? g.w : 0.0f);
  } else {
    for (int e = 0; e < 4; ++e)
      if (i + e < count) to[i + e] = out[i + e] > 0.0f ? grad[i + e] : 0.0f;
  }
}

// Both gradients of a small layer in one launch: blocks below `first` make grad_x, the others grad_weight and grad_bias.
template <bool Whole>
__global__ void __launch_bounds__(kTinyWarps * 32)
    tiny_gradients(const __grid_constant__ Product<float> by_x, const __grid_constant__ Plain<float> to_x,
                   const __grid_constant__ Product<float> by_weight,
                   const __grid_constant__ Plain<float, true> to_weight, int first, const float* out) {
  if (blockIdx.x < first)
    tiny_tile<2, 8, true, false, Whole>(by_x, to_x, blockIdx.x, Gated<true, Whole>{out, by_x.lda, by_x.m, by_x.k});
  else
    tiny_tile<2, 4, false, false, Whole>(by_weight, to_weight, blockIdx.x - first, Gated<false, Whole>{out, by_weight.lda, by_weight.m, by_weight.k});
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous(), "grad_out and x must be contiguous");
  TORCH_CHECK(weight.is_contiguous() && out.is_contiguous(), "weight and out must be contiguous");
  const int64_t rows = x.size(0), inner = x.size(1), cols = weight.size(0), count = rows * cols;
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const float *grad = grad_out.data_ptr<float>(), *from = x.data_ptr<float>(), *by = weight.data_ptr<float>();
  const float* kept = out.data_ptr<float>();
  Product<float> by_x = {{grad, grad}, {by, by}, rows, inner, cols, cols, inner};
  Product<float> by_weight = {{grad, grad}, {from, from}, cols, inner, rows, cols, inner};
  const Plain<float> to_x = {grad_x.data_ptr<float>(), rows, inner};
  Plain<float, true> to_weight = {grad_weight.data_ptr<float>(), cols, inner};
  to_weight.sums = grad_bias.data_ptr<float>();
  const auto stream = at::cuda::getCurrentCUDAStream();
  const bool whole = whole_chunks(by_x) && whole_chunks(by_weight) && reinterpret_cast<uintptr_t>(kept) % 16 == 0;
  if (is_tiny(rows, inner, cols) && is_tiny(cols, inner, rows) && !is_few(by_x) && !is_few(by_weight)) {
    const auto first = tiny_tiles<2, 8, Plain<float>>(by_x);
    const auto blocks = static_cast<unsigned>(first + tiny_tiles<2, 4, Plain<float>>(by_weight));
    auto kernel = whole ? &tiny_gradients<true> : &tiny_gradients<false>;
    kernel<<<blocks, kTinyWarps * 32, 0, stream>>>(by_x, to_x, by_weight, to_weight, static_cast<int>(first), kept);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {grad_x, grad_weight, grad_bias};
  }
  auto gated = torch::empty_like(grad_out);
  float* to = gated.data_ptr<float>();
  const auto blocks = static_cast<unsigned>((count / 4 + 4 + 255) / 256);
  gate_gradient<<<blocks, 256, 0, stream>>>(grad, kept, to, count, whole && count % 4 == 0);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  by_x.a[0] = by_x.a[1] = by_weight.a[0] = by_weight.a[1] = to;
  multiply<true, false>(by_x, to_x, x);
  multiply<false, false>(by_weight, to_weight, x);
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
