"""A task of somebody else, whose code runs confined, through the whole evaluation."""

from pathlib import Path

from warpsmith.evaluation import EvaluationConfig, evaluate
from warpsmith.records import CheckFacts, Verdict

TASK = Path(__file__).parents[2] / "foreign" / "kernelbench" / "1_Row_scale.py"
SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
__global__ void scale(const float* x, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] * 2.5f;
}
torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int count = x.numel();
  scale<<<(count + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), out.data_ptr<float>(),
                                                                           count);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


def test_a_foreign_task_is_graded_on_its_own_cases() -> None:
    record = evaluate(str(TASK), SOURCE, config=EvaluationConfig(device="vgpu"))
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    assert record.candidate.task == "1_Row_scale"
    facts = record.result("check").facts
    assert isinstance(facts, CheckFacts) and {case.case.name for case in facts.cases} == {"smoke"}
