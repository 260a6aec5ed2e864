//: let TENSOR_MAP tensor_map
//: let GROUP_OPTIONS group_options
//: let GROUPS_FIRST groups_first
//: let CLUSTER 2
//: let MIDDLE 192
//: let JOINED_OPTION joined_option
//: let JOINED joined
//: let SUMMED eight
//: let BY_GROUPS sizeof(T) == 2 && !(JOINED && IsPlain<Epilogue>::value)
// Gradients of a linear layer: tiles through a ring of shared memory to the tensor cores.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa), 16-bit types directly.
// The bias' gradient is summed from the tiles that the weight's gradient reads.
//: part includes
//: part options
namespace {

//: part instructions
//: part results

//: part tiles
//: part groups
//: part multiply
//: part tiny
//: part tiny_gradients
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
