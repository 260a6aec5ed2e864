// One use of every kind of argument and result, and of every spelling of a module.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/extension.h>

namespace py = pybind11;
using namespace py::literals;
using torch::Tensor;

Tensor forward(Tensor x, const Tensor& y, Tensor& z, double a, float b, int64_t c, int d, bool e,
               std::vector<int64_t> f, at::IntArrayRef g, c10::optional<Tensor> h, const std::optional<at::Tensor>& i,
               std::vector<Tensor> j, at::TensorList k, py::tuple l) {
  double sum = a + b + c + d + (e ? 1 : 0);
  for (auto value : f) sum += value;
  for (auto value : g) sum += value;
  sum += h.has_value() + (i ? i->numel() : 0);
  for (const auto& one : j) sum += one.numel();
  sum += k.size() + l.size() + l[0].cast<torch::Tensor>().numel();
  return torch::full({1}, sum, x.options());
}
std::tuple<Tensor, Tensor> pair_of(Tensor x, std::tuple<Tensor, Tensor> y) { return {std::get<1>(y), x}; }
std::vector<Tensor> list_of(Tensor x) { return {x, x, x}; }
py::tuple tuple_of(Tensor x) { return py::make_tuple(x, x); }
std::array<Tensor, 3> array_of(Tensor x) { return {x, Tensor(), x}; }
std::pair<Tensor, Tensor> both(Tensor x) { return std::make_pair(x, x); }
void nothing(Tensor x) { x.fill_(3); }
int64_t count(Tensor x, at::Scalar s, std::optional<double> scale) { return x.numel() * s.toInt() * int(scale.value_or(1)); }
Tensor refuses(Tensor x) {
  TORCH_CHECK(x.dim() == 7, "x must have 7 dimensions, has ", x.dim(), " of sizes ", x.sizes());
  return x;
}
Tensor throws(Tensor) { throw std::runtime_error("thrown on purpose"); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "kinds";
  m.def("forward", &forward, "every kind of argument", py::arg("x"), py::arg("y"), py::arg("z"), py::arg("a") = 1e-5,
        "b"_a, "c"_a = 3, py::arg("d"), py::arg("e") = true, py::arg("f"), py::arg("g"), py::arg("h") = py::none(),
        py::arg("i") = c10::nullopt, py::arg("j"), py::arg("k"), py::arg("l"));
  m.def("pair_of", pair_of, py::call_guard<py::gil_scoped_release>());
  m.def("list_of", &list_of).def("tuple_of", &tuple_of);
  m.def("array_of", &array_of);
  m.def("both", &both);
  m.def("nothing", &nothing);
  m.def("count", &count);
  m.def("refuses", &refuses);
  m.def("throws", &throws);
  m.def(
      "lambda", [](torch::Tensor x, int64_t n) { return x.view({n, -1}); }, "a lambda");
}
