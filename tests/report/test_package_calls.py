"""An exported package's way into a compiled kernel: real artifacts over our headers, whose host code works on a CPU."""

import ctypes
import importlib.util
from types import ModuleType
from typing import Any

import pytest
import torch

from warpsmith.languages import language_of
from warpsmith.languages.nvcc import Toolchain, compile
from warpsmith.records import Candidate, Direction
from warpsmith.report.export.package import FORMS

CPU = torch.device("cpu")
TORCH = """
#include <torch/extension.h>

std::vector<torch::Tensor> forward(torch::Tensor x, std::optional<torch::Tensor> bias, std::vector<torch::Tensor> parts,
                                   double scale, int64_t shift, bool twice, std::vector<int64_t> sizes) {
  TORCH_CHECK(x.dim() == 2, "x must have two axes, not ", x.dim());
  static torch::Tensor kept;  // a workspace that lives between calls
  static int64_t calls = 0;
  if (!kept.defined()) kept = torch::empty({4}, x.options());
  auto scratch = torch::empty({x.numel() * 2}, x.options());
  auto out = torch::empty_like(x), count = torch::empty({2}, x.options().dtype(torch::kInt64));
  const float* from = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    float value = from[i] * scale + shift + (bias ? bias->data_ptr<float>()[i % x.size(1)] : 0.0f);
    for (auto& part : parts) value += part.data_ptr<float>()[0];
    out.data_ptr<float>()[i] = twice ? 2 * value : value;
  }
  kept.data_ptr<float>()[0] = static_cast<float>(++calls);
  count.data_ptr<int64_t>()[0] = sizes.size() ? sizes.back() : -1;
  count.data_ptr<int64_t>()[1] = static_cast<int64_t>(kept.data_ptr<float>()[0]);
  return {out, count};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
PLAIN = """
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

extern "C" int forward(const DLTensor* x, const DLTensor* bias, bool odd, DLTensor* out, cudaStream_t stream) {
  if (odd) return 7;
  const auto from = static_cast<const float*>(x->data);
  for (int64_t i = 0; i < x->shape[0]; ++i)
    static_cast<float*>(out->data)[i] =
        from[i * x->strides[0]] + (bias ? *static_cast<const float*>(bias->data) : 0.0f);
  return 0;
}
"""


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module as a package has it."""
    path = tmp_path_factory.mktemp("package") / "calling.py"
    path.write_text((FORMS / "calling.py.in").read_text())
    spec = importlib.util.spec_from_file_location("exported_calling", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._device_type = lambda one: 2  # type: ignore[attr-defined]  # kernels are told that this memory is a GPU's
    return module


def artifact(calling: ModuleType, source: str) -> Any:
    """A kernel compiled as the evaluator compiles it, loaded as a package loads it."""
    candidate = Candidate(task="any", direction=Direction.FORWARD, source=source, language=language_of(source))
    made = compile(candidate)
    assert made.artifact is not None, made.result.detail
    ctypes.CDLL(str(Toolchain.find().runtime), ctypes.RTLD_GLOBAL)  # an artifact asks for the runtime by its name
    return calling.opened(str(made.artifact))


def test_values_of_every_kind_go_in_and_tensors_come_out(calling: ModuleType) -> None:
    library, x, bias = artifact(calling, TORCH), torch.randn(3, 5), torch.randn(5)
    parts = [torch.tensor([1.0]), torch.tensor([2.0])]
    out, count = calling.call(library, "forward", [x, bias, parts, 0.5, -4, True, [6, 7]], CPU, 0)
    torch.testing.assert_close(out, 2 * (x * 0.5 - 4 + bias + 3))
    assert count.tolist() == [7, 1] and count.dtype is torch.int64 and out.is_contiguous()
    out, count = calling.call(library, "forward", [x, None, [torch.zeros(1)], 1.0, 0, False, []], CPU, 0)
    torch.testing.assert_close(out, x)
    assert count.tolist() == [-1, 2], "what a kernel keeps between calls is kept"


def test_only_what_a_kernel_keeps_stays_allocated(calling: ModuleType) -> None:
    library = artifact(calling, TORCH + "\n// another file, so that its statics are its own\n")
    before = len(calling.Loan.memory)
    for _ in range(5):
        calling.call(library, "forward", [torch.randn(3, 5), None, [torch.zeros(1)], 1.0, 0, False, []], CPU, 0)
    assert len(calling.Loan.memory) == before + 1


def test_a_kernel_that_refuses_says_why(calling: ModuleType) -> None:
    library = artifact(calling, TORCH)
    with pytest.raises(RuntimeError, match="x must have two axes, not 1"):
        calling.call(library, "forward", [torch.randn(3), None, [torch.zeros(1)], 1.0, 0, False, []], CPU, 0)
    with pytest.raises(RuntimeError, match="other arguments than it takes"):
        calling.call(library, "forward", [torch.randn(3)], CPU, 0)
    with pytest.raises(RuntimeError, match="no such function"):
        calling.call(library, "sideways", [], CPU, 0)


def test_a_plain_kernel_writes_what_it_is_given(calling: ModuleType) -> None:
    library, x, out = artifact(calling, PLAIN), torch.randn(8)[::2], torch.empty(4)
    assert calling.call(library, "forward", [x, torch.tensor(3.0), False], CPU, 0, [out]) == [out]
    torch.testing.assert_close(out, x + 3)
    with pytest.raises(RuntimeError, match="status other than 0"):
        calling.call(library, "forward", [x, None, True], CPU, 0, [out])
