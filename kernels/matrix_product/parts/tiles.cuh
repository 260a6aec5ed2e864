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

