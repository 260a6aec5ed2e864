//: let TENSOR_MAP
//: let GROUP_OPTIONS
//: let GROUPS_FIRST
// Gradients of a linear layer with ReLU: the gate, then tiles through a ring of shared memory to the tensor cores.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa).
// The bias' gradient is summed from the tiles that the weight's gradient reads.
//: part includes
//: part options
namespace {

//: part instructions
//: part results

//: part tiles
//: part multiply
//: part tiny
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
