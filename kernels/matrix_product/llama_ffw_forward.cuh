//: let TENSOR_MAP tensor_map
//: let GROUP_OPTIONS group_options
//: let GROUPS_FIRST groups_first
//: let CLUSTER 1
//: let MIDDLE 192
//: let JOINED_OPTION
//: let JOINED
//: let SUMMED two
//: let BY_GROUPS sizeof(T) == 2
// LLaMA's feed-forward layer: gate and up products as one, gated as they end, then the down product.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa), 16-bit types directly.
//: part includes
//: part options
namespace {

//: part instructions
//: part results
// 1 / (1 + exp(-x)); for 16-bit results by the short instructions, which are a few ulp off.
template <typename T>
__device__ __forceinline__ float logistic(float x) {
  if constexpr (sizeof(T) == 4) return 1.0f / (1.0f + __expf(-x));
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return inverse;
}

// silu(gate) · up from both first products of the same place.
template <typename T>
struct Gating {
  static constexpr bool kPaired = true, kSums = false, kWide = false, kBias = false;
  T* out;
  int64_t m, n;
  __device__ void join(float (&gate)[2], float first, float second) const {
    gate[0] *= logistic<T>(gate[0]) * first;
    gate[1] *= logistic<T>(gate[1]) * second;
  }
  __device__ void put_exact(int64_t row, int64_t col, double gate, double up) const {
    out[row * n + col] = rounded<T>(gate / (1.0 + exp(-gate)) * up);
  }
  template <int V>
  __device__ void put_pairs(int64_t row, int64_t col, const float (&gate)[V], const float (&up)[V]) const {
    if (row >= m || col >= n) return;
    float value[V];
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = gate[i] / (1.0f + __expf(-gate[i])) * up[i];
    store(out + row * n + col, value, n - col, n % 8 == 0);
  }
};


//: part tiles
//: part groups
//: part multiply
//: part tiny
}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_weight, torch::Tensor up_weight, torch::Tensor down_weight) {
  TORCH_CHECK(x.is_contiguous() && gate_weight.is_contiguous(), "x and gate_weight must be contiguous");
  TORCH_CHECK(up_weight.is_contiguous() && down_weight.is_contiguous(), "weights must be contiguous");
  const int64_t rows = x.size(0), hidden = x.size(1), inner = gate_weight.size(0);
  auto between = torch::empty({rows, inner}, x.options()), out = torch::empty({rows, hidden}, x.options());
  const auto make = [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data_ptr<T>(), *gate = gate_weight.data_ptr<T>(), *up = up_weight.data_ptr<T>();
    const T *mid = between.data_ptr<T>(), *down = down_weight.data_ptr<T>();
    const Product<T> first = {{from, from}, {gate, up}, rows, inner, hidden, hidden, hidden};
    const Product<T> second = {{mid, mid}, {down, down}, rows, hidden, inner, inner, inner};
    const Gating<T> gating = {between.data_ptr<T>(), rows, inner};
    const Plain<T> plain = {out.data_ptr<T>(), rows, hidden};
    if (is_few(second)) {  // nothing between is rounded
      auto exact = torch::empty({rows, inner}, x.options().dtype(torch::kFloat64));
      double* const made = exact.data_ptr<double>();
      multiply_exactly<true, true>(first, Gating<double>{made, rows, inner});
      multiply_exactly<true, true>(Product<double, T>{{made, made}, {down, down}, rows, hidden, inner, inner, inner}, plain);
      return;
    }
    if constexpr (std::is_same_v<T, float>)
      if (is_tiny(rows, inner, hidden)) {
        multiply_tiny<2, 8, true, true>(first, gating);
        multiply_tiny<1, 8, true, true>(second, plain);
        return;
      }
    multiply<true, true>(first, gating, x);
    multiply<true, true>(second, plain, x);
  };
  if (x.scalar_type() == at::kFloat)
    make(0.0f);
  else if (x.scalar_type() == at::kHalf)
    make(at::Half());
  else {
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float types only");
    make(at::BFloat16());
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
