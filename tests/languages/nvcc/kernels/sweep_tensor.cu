// One use of every tensor method, option and factory that the headers promise. Run on host tensors by a test.
#include <torch/extension.h>

// Questions; each is checked against the geometry it was given.
std::vector<int64_t> questions_of(const torch::Tensor& x) {
  at::Tensor y = x;
  TORCH_CHECK(y.defined() && y.is_same(x), "handles share");
  TORCH_CHECK(x.ndimension() == x.dim());
  TORCH_CHECK(x.dtype() == torch::kFloat32 && x.scalar_type() == at::ScalarType::Float, "dtype ", x.dtype());
  TORCH_CHECK(x.dtype() == x.scalar_type() && x.type().scalarType() == torch::kFloat);
  TORCH_CHECK(x.device().is_cpu() == x.is_cpu() && x.is_cuda() == x.device().is_cuda() && !x.is_sparse());
  TORCH_CHECK(x.device() == torch::Device(x.is_cuda() ? torch::kCUDA : torch::kCPU, 0), "device ", x.device());
  TORCH_CHECK(x.element_size() == 4 && x.itemsize() == 4 && x.nbytes() == size_t(4 * x.numel()));
  TORCH_CHECK(x.sizes() == c10::IntArrayRef(x.sizes().vec()) && x.sizes().size() == size_t(x.dim()));
  TORCH_CHECK(x.is_floating_point() && at::isFloatingType(x.scalar_type()) && !at::isIntegralType(x.scalar_type(), false));
  TORCH_CHECK(!x.requires_grad() && x.detach().storage_offset() == x.storage_offset());
  TORCH_CHECK(x.options().dtype() == torch::kFloat && x.options().device() == x.device());
  TORCH_CHECK(x.layout() == torch::kStrided && x.get_device() == 0);
  return {x.size(0), x.size(-1), x.stride(0), x.stride(-1), x.numel(), x.is_contiguous()};
}

torch::Tensor pointers(torch::Tensor x) {
  TORCH_CHECK(x.data_ptr() == x.data_ptr<float>() && x.data<float>() == x.const_data_ptr<float>());
  TORCH_CHECK(x.mutable_data_ptr<float>() == x.mutable_data_ptr() && x.const_data_ptr() == x.data_ptr());
  const float* seen = x.data_ptr<const float>();
  TORCH_CHECK((seen == x.accessor<float, 2>().data()));
  auto whole = torch::empty({x.numel()}, x.options());
  auto in = x.accessor<float, 2>();
  auto out = whole.packed_accessor64<float, 1>();
  for (int64_t i = 0; i < in.size(0); ++i)
    for (int64_t j = 0; j < in.size(1); ++j) out[i * in.size(1) + j] = in[i][j];
  return whole;
}

std::vector<torch::Tensor> views(torch::Tensor x) {  // of shape 2, 3, 4
  return {x.view({6, 4}),
          x.view({-1}),
          x.view({2, -1, 2}),
          x.reshape({4, 6}),
          x.transpose(0, 1),
          x.transpose(-1, -2).reshape({2, 12}),
          x.permute({2, 0, 1}),
          x.unsqueeze(0),
          x.unsqueeze(-1),
          x.unsqueeze(1).squeeze(1),
          x.unsqueeze(1).unsqueeze(0).squeeze(),
          x.flatten(),
          x.flatten(1),
          x.flatten(0, 1),
          x.select(1, 2),
          x[1],
          x[0].t(),
          x.narrow(2, 1, 2),
          x.slice(2, 0, 4, 2),
          x.slice(1, -2, 3),
          x.select(0, 0).unsqueeze(0).expand({5, 3, 4}),
          x.as_strided({2, 2}, {1, 4}),
          x.transpose(1, 2).contiguous(),
          x.permute({0, 2, 1}).clone(),
          x.view_as(x),
          x.transpose(0, 2).reshape_as(x),
          x.select(0, 1).expand_as(x),
          x.unsqueeze(0).contiguous(at::MemoryFormat::ChannelsLast)};
}

std::vector<torch::Tensor> factories(torch::Tensor x) {
  auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device()).layout(torch::kStrided).requires_grad(false);
  auto doubles = x.options().dtype(at::kDouble);
  std::vector<int64_t> shape = {2, 3};
  auto e = torch::empty({2, 3}, options);
  e.fill_(4);
  auto l = torch::empty_like(x);
  l.zero_();
  auto s = torch::empty_strided({2, 3}, {1, 2}, options);
  s.copy_(torch::full({2, 3}, 2.5, options));
  return {e,
          l,
          s,
          torch::zeros(shape, doubles),
          torch::zeros({3}, torch::dtype(torch::kInt64).device(x.device())),
          torch::zeros_like(x),
          torch::ones({2}, options),
          torch::ones_like(x, x.options().dtype(torch::kBFloat16)),
          torch::full({1, 2}, 7, x.options().dtype(torch::kInt32)),
          torch::full_like(x, -1.5f),
          x.new_empty({2}).fill_(1.0),
          x.new_zeros({2, 2}),
          torch::zeros(x.sizes(), x.options().dtype(x.dtype())),
          torch::zeros({}, torch::device(x.device()).dtype(torch::kBool)),
          at::empty(x.sizes(), x.options(), at::MemoryFormat::Contiguous).fill_(x.flatten()[3].item())};
}

std::vector<torch::Tensor> conversions(torch::Tensor x) {
  return {x.to(torch::kFloat64), x.to(at::kHalf),       x.to(torch::kBFloat16), x.to(torch::kInt32),
          x.to(torch::kInt64),   x.to(torch::kBool),    x.to(torch::kUInt8),    x.to(x.dtype()),
          x.type_as(x),          x.toType(at::kDouble), x.t().to(torch::kInt16).to(torch::kFloat32),
          x.to(x.device()),      x.cpu(),               x.to(x.options().dtype(torch::kInt8)),
          x.to(torch::kCPU, torch::kFloat16)};
}

double items(torch::Tensor x) {
  return x[0][0].item<float>() + x[0][1].item().toDouble() + x[1][0].item<double>() + double(x[1][1].item<int64_t>());
}

torch::Tensor forward(torch::Tensor x) { return x.contiguous(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "every tensor method";
  m.def("questions", [](torch::Tensor x) {
    auto found = questions_of(x);
    auto out = torch::empty({int64_t(found.size())}, torch::kInt64);
    for (size_t i = 0; i < found.size(); ++i) out.accessor<int64_t, 1>()[i] = found[i];
    return out;
  });
  m.def("pointers", &pointers);
  m.def("views", &views);
  m.def("factories", &factories);
  m.def("conversions", &conversions);
  m.def("items", &items);
  m.def("sixteen", [](torch::Tensor x) {
    return std::vector<torch::Tensor>{x.to(torch::kFloat16).to(torch::kFloat32).to(torch::kFloat16), x.to(torch::kBFloat16)};
  });
  m.def("forward", &forward, "a dense copy");
}
