//: let TENSOR_MAP
//: let GROUP_OPTIONS
//: let GROUPS_FIRST
// A linear layer with ReLU: tiles through a ring of shared memory to the tensor cores, bias and ReLU at the end.
// float32 by tensor cores with three TF32 products for one (the parts of each number's mantissa).
//: part includes
//: part options
namespace {

//: part instructions
//: part results
//: part results_bias
//: part tiles
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
    const Biased<T, true> epilogue = {out.data_ptr<T>(), bias.data_ptr<T>(), rows, cols, whole_bias};
    if constexpr (std::is_same_v<T, float>)
      if (is_tiny(rows, cols, inner)) return multiply_tiny<1, 8, true, true>(p, epilogue);
    multiply<true, true>(p, epilogue, x);
  };
  TORCH_CHECK(x.scalar_type() == at::kFloat, "float32 only");
  make(0.0f);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
