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

