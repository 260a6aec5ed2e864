//: let TENSOR_MAP tensor_map
//: let GROUP_OPTIONS group_options
//: let GROUPS_FIRST groups_first
//: let CLUSTER 2
//: let MIDDLE 192
//: let JOINED_OPTION
//: let JOINED
//: let SUMMED two
//: let BY_GROUPS sizeof(T) == 2
// A linear layer: tiles through a ring of shared memory to the tensor cores, the bias added at the end.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa), 16-bit types directly.
//: part includes
//: part options
namespace {

//: part instructions
//: part results
//: part results_bias
//: part tiles
//: part groups
//: part multiply
//: part tiny
}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const int64_t inner = x.size(-1), cols = weight.size(0), rows = x.numel() / inner;
  auto out = torch::empty({rows, cols}, x.options());
  const bool whole_bias = reinterpret_cast<uintptr_t>(bias.data_ptr()) % 16 == 0;
  const auto make = [&](auto zero) {
    using T = decltype(zero);
    const T *from = x.data_ptr<T>(), *by = weight.data_ptr<T>();
    const Product<T> p = {{from, from}, {by, by}, rows, cols, inner, inner, inner};
    const Biased<T, false> epilogue = {out.data_ptr<T>(), bias.data_ptr<T>(), rows, cols, whole_bias};
    if constexpr (std::is_same_v<T, float>)
      if (is_tiny(rows, cols, inner)) return multiply_tiny<1, 8, true, true>(p, epilogue);
    multiply<true, true>(p, epilogue, x);
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
