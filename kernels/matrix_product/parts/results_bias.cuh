// A bias is added, then perhaps max(·, 0).
template <typename T, bool Relu>
struct Biased {
  static constexpr bool kPaired = false, kSums = false, kWide = false, kBias = true;
  T* out;
  const T* bias;
  int64_t m, n;
  bool whole;  // the bias begins at a multiple of 16 bytes
  // Two neighbours of a whole bias, and what becomes of two results.
  __device__ uint32_t added(int64_t col) const {
    return col < n ? __ldg(reinterpret_cast<const unsigned*>(bias + col)) : 0;
  }
  __device__ void change(uint32_t word, float (&value)[2]) const {
    T pair[2];
    memcpy(pair, &word, 4);
    value[0] += static_cast<float>(pair[0]), value[1] += static_cast<float>(pair[1]);
    if (Relu) value[0] = fmaxf(value[0], 0.0f), value[1] = fmaxf(value[1], 0.0f);
  }
  __device__ void put_exact(int64_t row, int64_t col, double value) const {
    const auto added = static_cast<float>(value + value_of(bias[col]));
    out[row * n + col] = static_cast<T>(Relu ? fmaxf(added, 0.0f) : added);
  }
  template <int V>
  __device__ void put(int64_t row, int64_t col, const float (&value)[V], int) const {
    if (row >= m || col >= n) return;
    float added[V];
    load(added, bias + col, n - col, n % 8 == 0 && whole);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      added[i] += value[i];
      if (Relu) added[i] = fmaxf(added[i], 0.0f);
    }
    store(out + row * n + col, added, n - col, n % 8 == 0);
  }
};


