"""Null candidates: what a call costs when it does nothing. The zero of both clocks, and the price of launches."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from warpsmith.base import HarnessError, median
from warpsmith.compile import CompileOptions, Toolchain, compile
from warpsmith.records import Candidate, Direction
from warpsmith.sandbox.cuda_session import CudaSession, room_for
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.session import Mode
from warpsmith.tasks.program import Problem
from warpsmith.timing.rules import LaunchCost
from warpsmith.timing.sample import Manner, Samples, sample
from warpsmith.timing.stop import StopRule

COUNTS = (1, 2, 4, 8)
RULE = StopRule(width=0.0, least=9, most=9, seconds=10.0)
ZERO_RULE = StopRule(width=0.0, least=41, most=41, seconds=10.0)  # of the one launch that is the zero of both clocks
SOURCE = """#include <torch/extension.h>
__global__ void nothing(float* y) { if (y) y[0] = 0; }
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({1}, x.options());
  for (int i = 0; i < LAUNCHES; ++i) nothing<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(y.data_ptr<float>());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@dataclass(frozen=True)
class Null:
    """The clocks of a call with one empty launch, and what further launches cost."""

    queued_us: float
    beside_us: float  # what the judge waits beside the events: the lower quartile, since delays only add
    cost: LaunchCost


def l2_bytes() -> int:
    """Of this GPU."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def measure_null(toolchain: Toolchain) -> Null:
    """Time the null candidates on this GPU now."""
    found = {count: _samples(toolchain, count) for count in COUNTS}
    idle = {count: median(samples.events_us(Mode.IDLE)) for count, samples in found.items()}
    queued = {count: median(samples.events_us(Mode.QUEUED)) for count, samples in found.items()}
    return Null(queued[1], found[1].beside_us(0.25), LaunchCost.fit(idle, queued))


def _samples(toolchain: Toolchain, launches: int) -> Samples:
    macros = {"LAUNCHES": str(launches)}
    candidate = Candidate(task="null", direction=Direction.FORWARD, source=SOURCE, macros=macros)
    made = compile(candidate, None, CompileOptions(), toolchain)
    if made.artifact is None:
        raise HarnessError(f"The null candidate does not compile: {made.result.detail}")
    manner = Manner(ZERO_RULE if launches == 1 else RULE)
    x = torch.zeros(1, device="cuda")
    with CudaSession(made.artifact, "forward", toolchain.runtime.parent, room_for((x,), (x,))) as session:
        samples = sample(session, _zeros(x), lambda _call, _shown: None, manner)
    if isinstance(samples, Trouble):
        raise HarnessError(f"The null candidate does not run: {samples.detail}")
    return samples.kept()


def _zeros(x: torch.Tensor) -> Iterator[Problem]:
    while True:
        yield Problem((x,), (x,), (x.double(),))
