"""The null candidate: what a call of some form costs when it does nothing. The zero of both clocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import torch

from warpsmith.base import HarnessError, median, quantile
from warpsmith.evaluation.timing.sample import Manner, Null, TimedCall, sample
from warpsmith.evaluation.timing.stop import StopRule
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda import CudaSession, room_for_all
from warpsmith.machines.worker import Mode
from warpsmith.records import Candidate, Direction, Failure
from warpsmith.tasks.reference import Problem

RULE = StopRule(width=0.0, least=31, most=31, seconds=10.0)
SOURCE = """#include <torch/extension.h>
#include <vector>
__global__ void nothing(float* y) { y[0] = 0; }
// As many launches as x has rows, as many results as it has columns.
std::vector<torch::Tensor> forward(torch::Tensor x) {
  std::vector<torch::Tensor> made;
  for (int i = 0; i < x.size(1); ++i) made.push_back(torch::empty({1}, x.options()));
  auto stream = at::cuda::getCurrentCUDAStream();
  for (int i = 0; i < x.size(0); ++i) nothing<<<1, 32, 0, stream>>>(made[0].data_ptr<float>());
  return made;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@dataclass(frozen=True)
class EmptyKernelForm:
    """What of a call costs time though nothing is computed: launches and results."""

    launches: int
    results: int


def l2_bytes() -> int:
    """Of this GPU."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def measure_nulls(toolchain: Toolchain, forms: Sequence[EmptyKernelForm]) -> dict[EmptyKernelForm, Null]:
    """Time the null candidate on this GPU now; delays only add, so from an idle device the lower quartiles count."""
    candidate = Candidate(task="null", direction=Direction.FORWARD, source=SOURCE)
    made = compile(candidate, None, CompileOptions(), toolchain)
    if made.artifact is None:
        raise HarnessError(f"The null candidate does not compile: {made.result.detail}")
    calls = {form: call_of(form) for form in forms}
    with CudaSession(made.artifact, "forward", toolchain.runtime.parent, room_for_all(calls.values())) as session:
        return {form: _null(session, call) for form, call in calls.items()}


def _null(session: CudaSession, call: Problem) -> Null:
    samples = sample(session, repeat(TimedCall(call, lambda _call, _shown: None)), Manner(RULE))
    if isinstance(samples, Failure):
        raise HarnessError(f"The null candidate does not run: {samples.detail}")
    kept = samples.kept()
    idle_us, queued_us = quantile(kept.events_us(Mode.IDLE), 0.25), median(kept.events_us(Mode.QUEUED))
    return Null(queued_us, idle_us, kept.beside_us(0.25))


def call_of(form: EmptyKernelForm, device: str = "cuda") -> Problem:
    """A call of the null candidate that has this form."""
    x = torch.zeros(max(1, form.launches), max(1, form.results), device=device)
    return Problem((x,), (x[0, :1],), ())
