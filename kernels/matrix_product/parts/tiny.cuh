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

