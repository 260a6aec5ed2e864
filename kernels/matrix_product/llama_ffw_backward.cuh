//: let TENSOR_MAP tensor_map
//: let GROUP_OPTIONS group_options
//: let GROUPS_FIRST groups_first
//: let CLUSTER 2
//: let MIDDLE 192
//: let JOINED_OPTION joined_option
//: let JOINED joined
//: let SUMMED two
//: let BY_GROUPS sizeof(T) == 2 && !(JOINED && IsPlain<Epilogue>::value)
// Gradients of LLaMA's feed-forward layer: the gate's derivative where the first product ends, both sums of grad_x as one.
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

// From the gradient at silu(gate) · up: that product again, and the gradients of both of its factors.
template <typename T>
struct Ungating {
  static constexpr bool kPaired = false, kSums = false, kWide = true, kBias = false;
  const T *gate, *up;
  T *between, *grad_gate, *grad_up;
  int64_t m, n;
  bool whole;
  __device__ static void derive(float g, float u, float grad, float& made, float& to_gate, float& to_up) {
    const float share = logistic<T>(g), silu = g * share;
    made = silu * u;
    to_gate = grad * u * (share + silu * (1.0f - share));
    to_up = grad * silu;
  }
  template <int V>
  __device__ void put(int64_t row, int64_t col, const float (&grad)[V], int) const {
    if (row >= m || col >= n) return;
    const int64_t at = row * n + col, left = n - col;
    float g[V], u[V], made[V], to_gate[V], to_up[V];
    load(g, gate + at, left, whole);
    load(u, up + at, left, whole);
#pragma unroll
    for (int i = 0; i < V; ++i) derive(g[i], u[i], grad[i], made[i], to_gate[i], to_up[i]);
    store(between + at, made, left, whole);
    store(grad_gate + at, to_gate, left, whole);
    store(grad_up + at, to_up, left, whole);
  }
  __device__ void put_exact(int64_t row, int64_t col, double grad) const {
    const int64_t at = row * n + col;
    const double g = value_of(gate[at]), u = value_of(up[at]), share = 1.0 / (1.0 + exp(-g)), silu = g * share;
    between[at] = rounded<T>(silu * u);
    grad_gate[at] = rounded<T>(grad * u * (share + silu * (1.0 - share)));
    grad_up[at] = rounded<T>(grad * silu);
  }
  // The same for eight results at place `at`, with gate and up (whole) asked for in time.
  __device__ void ask(int64_t at, uint4 (&to)[2]) const {
    to[0] = __ldg(reinterpret_cast<const uint4*>(gate + at));
    to[1] = __ldg(reinterpret_cast<const uint4*>(up + at));
  }
  __device__ void put_asked(int64_t at, const float (&grad)[8], const uint4 (&asked)[2]) const {
    const uint32_t gates[4] = {asked[0].x, asked[0].y, asked[0].z, asked[0].w};
    const uint32_t ups[4] = {asked[1].x, asked[1].y, asked[1].z, asked[1].w};
    uint32_t word[3][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T g[2], u[2], made[3][2];
      memcpy(g, &gates[i], 4);
      memcpy(u, &ups[i], 4);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float one[3];
        derive(static_cast<float>(g[e]), static_cast<float>(u[e]), grad[2 * i + e], one[0], one[1], one[2]);
        for (int k = 0; k < 3; ++k) made[k][e] = static_cast<T>(one[k]);
      }
      for (int k = 0; k < 3; ++k) memcpy(&word[k][i], made[k], 4);
    }
    *reinterpret_cast<uint4*>(between + at) = make_uint4(word[0][0], word[0][1], word[0][2], word[0][3]);
    *reinterpret_cast<uint4*>(grad_gate + at) = make_uint4(word[1][0], word[1][1], word[1][2], word[1][3]);
    *reinterpret_cast<uint4*>(grad_up + at) = make_uint4(word[2][0], word[2][1], word[2][2], word[2][3]);
  }
  // Brings a part of what a tile will ask for into the L2: step `step` of `steps`, by a warp.
  template <int Cols>
  __device__ void expect_tile(int row0, int col0, int step, int steps) const {
    constexpr int lines = Cols / 64, all = 128 * lines * 2;  // lines of 128 bytes: of a row, and of both
    for (int i = step * all / steps + threadIdx.x % 32; i < (step + 1) * all / steps; i += 32) {
      const int64_t row = row0 + i / 2 / lines, col = col0 + i / 2 % lines * 64;
      if (row < m && col < n)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global((i % 2 ? up : gate) + row * n + col)));
    }
  }
};


//: part tiles
//: part groups
//: part multiply
//: part tiny
// A tile of 64 by 64 results of a product whose sum is short and whose operands lie in lines, in float32 throughout.
template <bool Whole>
__device__ __forceinline__ void short_tile(const Product<float>& p, const Plain<float>& to, int tile) {
  constexpr int depth = 32;
  __shared__ __align__(16) float lines[2][depth][64];
  const int across = static_cast<int>((p.n + 63) / 64), row0 = tile / across * 64, col0 = tile % across * 64;
  const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
  float sum[4][4] = {};
#pragma unroll 1
  for (int k0 = 0; k0 < p.k; k0 += depth) {
    if (k0) __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int line = threadIdx.x / 16 + i % 2 * 16, k = k0 + line, at = (i / 2 ? col0 : row0) + x;
      const int64_t ld = i / 2 ? p.ldb : p.lda;
      const int left = k < p.k ? static_cast<int>(i / 2 ? p.n : p.m) - at : 0;
      const float* from = (i / 2 ? p.b[0] : p.a[0]) + k * ld + at;
      float four[4];
      load(four, from, left, Whole);
      *reinterpret_cast<float4*>(&lines[i / 2][line][x]) = make_float4(four[0], four[1], four[2], four[3]);
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < depth; ++k) {
      const float4 a = *reinterpret_cast<const float4*>(&lines[0][k][y]);
      const float4 b = *reinterpret_cast<const float4*>(&lines[1][k][x]);
      const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 16; ++i) sum[i / 4][i % 4] = fmaf(left[i / 4], right[i % 4], sum[i / 4][i % 4]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) to.put<4>(row0 + y + i, col0 + x, sum[i], 0);
}

// What follows the gate's derivative in a small layer, in one launch: blocks below `first` make grad_x, the others the
// gradients of the weights.
template <bool Whole>
__global__ void __launch_bounds__(kTinyWarps * 32)
    small_gradients(const __grid_constant__ Product<float> by_x, const __grid_constant__ Plain<float> to_x,
                    const __grid_constant__ Product<float> by_gate, const __grid_constant__ Plain<float> gate_to,
                    const __grid_constant__ Product<float> by_up, const __grid_constant__ Plain<float> up_to,
                    const __grid_constant__ Product<float> by_down, const __grid_constant__ Plain<float> to_down,
                    int first, int each) {
  static_assert(kTinyWarps * 32 == 256, "short_tile is for 256 threads");
  const int tile = static_cast<int>(blockIdx.x) - first;
  if (tile < 0)
    tiny_tile<1, 8, true, false, Whole>(by_x, to_x, blockIdx.x, Open());
  else if (tile < each)
    short_tile<Whole>(by_gate, gate_to, tile);
  else if (tile < 2 * each)
    short_tile<Whole>(by_up, up_to, tile - each);
  else
    short_tile<Whole>(by_down, to_down, tile - 2 * each);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor gate_weight,
                                    torch::Tensor up_weight, torch::Tensor down_weight, torch::Tensor gate,
                                    torch::Tensor up) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && gate_weight.is_contiguous(), "must be contiguous");
  TORCH_CHECK(up_weight.is_contiguous() && down_weight.is_contiguous(), "weights must be contiguous");
  TORCH_CHECK(gate.is_contiguous() && up.is_contiguous(), "gate and up must be contiguous");
  const int64_t rows = x.size(0), hidden = x.size(1), inner = gate_weight.size(0);
  auto grad_gate = torch::empty_like(gate), grad_up = torch::empty_like(up), between = torch::empty_like(gate);
  auto grad_x = torch::empty_like(x), down_result = torch::empty_like(down_weight);
  auto gate_result = torch::empty_like(gate_weight), up_result = torch::empty_like(up_weight);
  const auto make = [&](auto zero) {
    using T = decltype(zero);
    const auto data = [](const torch::Tensor& tensor) { return tensor.data_ptr<T>(); };
    const T *grad = data(grad_out), *from = data(x), *down = data(down_weight);
    const T *to_gate = data(grad_gate), *to_up = data(grad_up), *made = data(between);
    const Product<T> inward = {{grad, grad}, {down, down}, rows, inner, hidden, hidden, inner};
    const Product<T> by_down = {{grad, grad}, {made, made}, hidden, inner, rows, hidden, inner};
    const Product<T> by_gate = {{to_gate, to_gate}, {from, from}, inner, hidden, rows, inner, hidden};
    const Product<T> by_up = {{to_up, to_up}, {from, from}, inner, hidden, rows, inner, hidden};
    const Product<T> by_x = {{to_gate, to_up}, {data(gate_weight), data(up_weight)}, rows, hidden, inner, inner, hidden, 2};
    bool whole = inner % 8 == 0;
    for (const T* at : {data(gate), data(up)}) whole = whole && reinterpret_cast<uintptr_t>(at) % 16 == 0;
    const Ungating<T> ungating = {data(gate), data(up), data(between), data(grad_gate), data(grad_up), rows, inner, whole};
    const Plain<T> to_x = {data(grad_x), rows, hidden}, to_down = {data(down_result), hidden, inner};
    const Plain<T> gate_to = {data(gate_result), inner, hidden}, up_to = {data(up_result), inner, hidden};
    if (is_few(by_x) || is_few(by_gate)) {  // nothing between is rounded, gate and up are made again
      const int64_t count = rows * inner;
      auto exact = torch::empty({5, count}, x.options().dtype(torch::kFloat64));
      double *const middle = exact.data_ptr<double>(), *const gates = middle + count, *const ups = gates + count;
      double *const gate_again = ups + count, *const up_again = gate_again + count;
      const T *gate_rows = data(gate_weight), *up_rows = data(up_weight);
      const Product<T> again = {{from, from}, {gate_rows, gate_rows}, rows, inner, hidden, hidden, hidden};
      const Product<T> also = {{from, from}, {up_rows, up_rows}, rows, inner, hidden, hidden, hidden};
      multiply_exactly<true, true>(again, Plain<double>{gate_again, rows, inner});
      multiply_exactly<true, true>(also, Plain<double>{up_again, rows, inner});
      const Ungating<double> derived = {gate_again, up_again, middle, gates, ups, rows, inner, false};
      const Product<double, T> exact_x = {{gates, ups}, {gate_rows, up_rows}, rows, hidden, inner, inner, hidden, 2};
      multiply_exactly<true, false>(inward, derived);
      multiply_exactly<true, false>(exact_x, to_x);
      multiply_exactly<false, false>(Product<T, double>{{grad, grad}, {middle, middle}, hidden, inner, rows, hidden, inner}, to_down);
      multiply_exactly<false, false>(Product<double, T>{{gates, gates}, {from, from}, inner, hidden, rows, inner, hidden}, gate_to);
      multiply_exactly<false, false>(Product<double, T>{{ups, ups}, {from, from}, inner, hidden, rows, inner, hidden}, up_to);
      return;
    }
#if STRATEGY == 1 && JOINED
    if constexpr (sizeof(T) == 2) {
      const Product<T> others[3] = {by_gate, by_up, by_down};
      Plain<T> to_others[3] = {gate_to, up_to, to_down};
      if (rows * inner * hidden >= GROUP_STEPS && whole_chunks(inward) && groups_take(by_x, to_x)) {
        multiply<true, false>(inward, ungating, x);
        if (multiply_joined(by_x, to_x, others, to_others, x)) return;
        multiply<true, false>(by_x, to_x, x);
        for (int i = 0; i < 3; ++i) multiply<false, false>(others[i], to_others[i], x);
        return;
      }
    }
#endif
    if constexpr (std::is_same_v<T, float>)
      if (is_tiny(rows, inner, hidden)) {
        multiply_tiny<1, 8, true, false>(inward, ungating);
        bool all = true;
        for (const auto* p : {&by_x, &by_gate, &by_up, &by_down}) all = all && whole_chunks(*p);
        const auto first = static_cast<int>(tiny_tiles<1, 8, Plain<float>>(by_x));
        const auto each = static_cast<int>(tiles_of(inner, hidden, 64, 64));
        const auto blocks = static_cast<unsigned>(first + 2 * each + tiles_of(hidden, inner, 64, 64));
        auto kernel = all ? &small_gradients<true> : &small_gradients<false>;
        kernel<<<blocks, kTinyWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(by_x, to_x, by_gate, gate_to, by_up, up_to,
                                                                                 by_down, to_down, first, each);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        return;
      }
    multiply<true, false>(inward, ungating, x);
    multiply<true, false>(by_x, to_x, x);
    multiply<false, false>(by_down, to_down, x);
    multiply<false, false>(by_gate, gate_to, x);
    multiply<false, false>(by_up, up_to, x);
  };
  if (x.scalar_type() == at::kFloat)
    make(0.0f);
  else if (x.scalar_type() == at::kHalf)
    make(at::Half());
  else {
    TORCH_CHECK(x.scalar_type() == at::kBFloat16, "float types only");
    make(at::BFloat16());
  }
  return {grad_x, gate_result, up_result, down_result};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
