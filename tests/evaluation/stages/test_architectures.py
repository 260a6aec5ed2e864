"""Seeds of the suite on virtual GPUs of other architectures: compiled for each, and right there."""

import pytest
import torch

from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.run import evaluate
from warpsmith.records import CompileFacts, Direction, Reason, Verdict
from warpsmith.tasks.suite import folders, suite_folder

torch.set_num_threads(1)
ARCHITECTURES = {"A100": "sm_80", "L40S": "sm_89", "H200": "sm_90a", "B200": "sm_100"}
FEW = {("softmax", Direction.FORWARD), ("linear", Direction.BACKWARD)}
SEEDS = [
    pytest.param(task, way, marks=[] if (task, way) in FEW else pytest.mark.slow, id=f"{task}-{way}")
    for task in folders()
    for way in Direction
    if (suite_folder(task) / f"seed_{way}.cu").exists()
]
HEAD = "#include <torch/extension.h>\n"
TAIL = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }\n'


@pytest.mark.parametrize("gpu", ARCHITECTURES)
@pytest.mark.parametrize(("task", "way"), SEEDS)
def test_a_seed_is_compiled_for_the_modelled_gpu_and_right(task: str, way: Direction, gpu: str) -> None:
    source = (suite_folder(task) / f"seed_{way}.cu").read_text()
    record = evaluate(task, source, way, config=EvaluationConfig(device="vgpu", gpu=gpu, effort="sketch"))
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    assert record.environment.hardware == f"vgpu:{gpu}"
    (compiled,) = [one.facts for one in record.results if isinstance(one.facts, CompileFacts)]
    assert compiled.arch == ARCHITECTURES[gpu]
    assert record.timing is not None
    assert all(case.time.us > 0 for case in record.timing.cases)


def refused(instruction: str, gpu: str) -> str:
    """Return why a kernel with an instruction is refused when it is compiled for a GPU."""
    source = (
        f'{HEAD}__global__ void one(float* y) {{ asm volatile("{instruction}"); }}\n'
        "torch::Tensor forward(torch::Tensor x) { one<<<1, 128>>>(x.data_ptr<float>()); return x; }" + TAIL
    )
    record = evaluate("softmax", source, config=EvaluationConfig(device="vgpu", gpu=gpu))
    assert (record.concluded, record.results[-1].reason) == (Verdict.FAIL, Reason.COMPILE_ERROR)
    return record.results[-1].detail


@pytest.mark.parametrize(
    ("instruction", "gpu"),
    [
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "B200"),
        ("wgmma.fence.sync.aligned;", "B200"),
        ("wgmma.fence.sync.aligned;", "A100"),
    ],
)
def test_an_instruction_that_the_modelled_gpu_lacks_is_refused_by_name(instruction: str, gpu: str) -> None:
    assert instruction.split(".")[0] in refused(instruction, gpu)
