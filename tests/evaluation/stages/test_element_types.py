"""Tasks of every element type, from a user's file to the verdict."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation import EvaluationConfig, evaluate
from warpsmith.records import Dtype, Reason, Record, Verdict

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {result}
def inputs():
    return [{given}]
"""
# One thread an element: the result of a row, or of an element where a row has one.
KERNEL = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
using In = {taken};
using Out = {made};
__global__ void work(const In* x, Out* out, int count, int width) {{
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= count) return;
  const In* from = x + row * width;
  {work}
}}
torch::Tensor forward(torch::Tensor x) {{
  const int width = {width}, count = x.numel() / width;
  auto out = torch::empty({sizes}, x.options().dtype(c10::CppTypeToScalarType<Out>::value));
  work<<<(count + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<In>(), out.data_ptr<Out>(), count,
                                                                       width);
  return out;
}}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", &forward); }}
"""
ARGMAX = "int best = 0; for (int i = 1; i < width; ++i) if (from[i] > from[best]) best = i; out[row] = best;"
C_TYPES = {
    Dtype.FLOAT32: "float",
    Dtype.FLOAT16: "at::Half",
    Dtype.BFLOAT16: "at::BFloat16",
    Dtype.FLOAT64: "double",
    Dtype.FLOAT8_E4M3FN: "at::Float8_e4m3fn",
    Dtype.FLOAT8_E5M2: "at::Float8_e5m2",
    Dtype.INT64: "int64_t",
    Dtype.INT32: "int32_t",
    Dtype.INT16: "int16_t",
    Dtype.INT8: "int8_t",
    Dtype.UINT8: "uint8_t",
    Dtype.BOOL: "bool",
}


QUICK = Dtype.FLOAT8_E4M3FN  # one of those that are stored and not computed with; make test-slow does all
EVERY = [pytest.param(dtype, marks=() if dtype is QUICK else pytest.mark.slow, id=dtype) for dtype in Dtype]


def task(folder: Path, result: str, given: str = "torch.randn(96, 40)") -> str:
    path = folder / "file.py"
    path.write_text(TASK.format(result=result, given=given))
    return f"{path}:Model"


def rows(work: str, made: Dtype = Dtype.INT64) -> str:
    """A kernel with one result a row."""
    return KERNEL.format(taken="float", made=C_TYPES[made], work=work, width="x.size(1)", sizes="{x.size(0)}")


def elements(work: str, taken: Dtype, made: Dtype) -> str:
    """A kernel with one result an element."""
    return KERNEL.format(taken=C_TYPES[taken], made=C_TYPES[made], work=work, width="1", sizes="x.sizes()")


def judged(target: str, source: str) -> Record:
    return evaluate(target, source, config=EvaluationConfig(device="vgpu"))


def reason(record: Record) -> Reason | None:
    return record.results[-1].reason


def test_an_argmax_works_from_the_file_to_the_verdict(tmp_path: Path) -> None:
    target = task(tmp_path, "x.argmax(-1)")
    right = judged(target, rows(ARGMAX))
    assert right.concluded is Verdict.PASS, right.results[-1].detail
    off = judged(target, rows(ARGMAX.replace("= best;", "= best + (row == 70);")))
    assert reason(off) is Reason.WRONG_VALUE and "1 of 96 elements are wrong" in off.results[-1].detail


@pytest.mark.parametrize("dtype", [Dtype.INT64, Dtype.BOOL])
def test_a_whole_number_that_is_not_written_is_seen(dtype: Dtype, tmp_path: Path) -> None:
    target = task(tmp_path, f"(x.argmax(-1) % 2).to(torch.{dtype})")
    some = ARGMAX.replace("out[row] = best;", "if (row != 70) out[row] = best % 2;")
    assert reason(judged(target, rows(some, dtype))) is Reason.UNWRITTEN


def test_a_plain_kernel_that_leaves_a_whole_number_out_is_seen(tmp_path: Path) -> None:
    """Its results lie in memory that is given: only what was put there before tells."""
    plain = """
    __global__ void work(const float* x, int* out, int count) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < count - 1) out[i] = int(x[i] * 4);
    }
    extern "C" int forward(const DLTensor* x, DLTensor* out, cudaStream_t stream) {
      const int count = int(x->shape[0] * x->shape[1]);
      work<<<(count + 63) / 64, 64, 0, stream>>>((const float*)x->data, (int*)out->data, count);
      return 0;
    }
    """
    assert reason(judged(task(tmp_path, "(x * 4).int()"), plain)) is Reason.UNWRITTEN
    assert judged(task(tmp_path, "(x * 4).int()"), plain.replace("count - 1", "count")).concluded is Verdict.PASS


@pytest.mark.parametrize("dtype", EVERY)
def test_every_element_type_is_stored(dtype: Dtype, tmp_path: Path) -> None:
    target = task(tmp_path, f"(x * 3).to(torch.{dtype})", "torch.rand(7, 33)")
    store = "out[row] = Out(from[0] * 3.0f);"
    record = judged(target, elements(store, Dtype.FLOAT32, dtype))
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    wrong = judged(target, elements(store.replace("3.0f", "-3.0f"), Dtype.FLOAT32, dtype))
    assert dtype is Dtype.BOOL or reason(wrong) is Reason.WRONG_VALUE


@pytest.mark.parametrize("dtype", EVERY)
def test_every_element_type_is_taken(dtype: Dtype, tmp_path: Path) -> None:
    target = task(tmp_path, "x.float() + 1", f"(torch.randn(7, 33) * 5).abs().to(torch.{dtype})")
    record = judged(target, elements("out[row] = static_cast<float>(from[0]) + 1.0f;", dtype, Dtype.FLOAT32))
    assert record.concluded is Verdict.PASS, record.results[-1].detail


@pytest.mark.parametrize(
    ("result", "given", "name"),
    [
        ("torch.fft.fft(x)", "torch.randn(4, 8)", "complex64"),
        ("x.float()", "torch.zeros(4, dtype=torch.complex128)", "complex128"),
        ("x.to(torch.uint16)", "torch.rand(4)", "uint16"),
        ("x.to(torch.float8_e4m3fnuz)", "torch.rand(4)", "float8_e4m3fnuz"),
    ],
)
def test_an_unknown_element_type_is_a_usage_error(result: str, given: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name):
        judged(task(tmp_path, result, given), rows(ARGMAX))
