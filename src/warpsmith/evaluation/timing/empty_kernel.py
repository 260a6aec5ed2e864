"""Times of an empty kernel, and the floor of a GPU."""
# Both are independent of any candidate: a candidate's process never takes part, so it cannot lengthen
# them to get more slack.

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path

import torch
from pydantic import ValidationError

from warpsmith.base import HarnessError, Home, digest, median, quantile, write_atomic
from warpsmith.evaluation.timing.rules import Floor, StopRule
from warpsmith.evaluation.timing.sample import EmptyKernelTimes, SamplingOptions, TimedCall, sample
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda import CudaMachine, CudaSession, room_for_all
from warpsmith.machines.worker import Mode
from warpsmith.machines.worker.worker import worker
from warpsmith.records import Candidate, Ceilings, Direction, Failure, Model
from warpsmith.tasks.reference import Problem

ANY_US = 1e9  # more than any two clocks differ by
# A width of 0 is never reached, so that a window has 31 queued calls.
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
OLD_S = 3600.0  # how busy the host is changes within hours
# After a reboot clocks, power limits and the neighbours may differ, so times of an earlier boot are not
# used.
BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class EmptyKernelForm:
    """The launches and results of an empty kernel's call."""

    # Launches and results cost time although nothing is computed. An empty kernel with the same counts
    # shows how much of the difference between two clocks they explain.

    launches: int
    results: int


# Measured together, since most tasks need one of them and a start of the worker takes longer than the calls.
USUAL_FORMS = tuple(EmptyKernelForm(launches, results) for launches in (1, 2) for results in (1, 2, 3))
Measure = Callable[[CudaMachine, Toolchain, Sequence[EmptyKernelForm]], dict[EmptyKernelForm, EmptyKernelTimes]]


def give_empty_kernels(
    _machine: CudaMachine, _toolchain: Toolchain, forms: Sequence[EmptyKernelForm]
) -> dict[EmptyKernelForm, EmptyKernelTimes]:
    """Return times that no call contradicts."""
    return dict.fromkeys(forms, EmptyKernelTimes(queued_us=0.0, idle_us=ANY_US, beside_us=ANY_US))


def measure_empty_kernels(
    machine: CudaMachine, toolchain: Toolchain, forms: Sequence[EmptyKernelForm]
) -> dict[EmptyKernelForm, EmptyKernelTimes]:
    """Time the empty kernel; raise HarnessError if it fails."""
    candidate = Candidate(task="null", direction=Direction.FORWARD, source=SOURCE)
    made = compile(candidate, None, CompileOptions(), toolchain)
    if made.artifact is None:
        raise HarnessError(f"The empty kernel does not compile: {made.result.detail}")
    calls = {form: empty_call(form, machine.torch_device) for form in forms}
    room, runtime = room_for_all(calls.values()), toolchain.runtime.parent
    with CudaSession(made.artifact, "forward", runtime, room, gpu=machine.access) as session:
        return {form: _measure_form(session, call) for form, call in calls.items()}


def _measure_form(session: CudaSession, call: Problem) -> EmptyKernelTimes:
    """Return one form's times; raise HarnessError if a call fails."""
    samples = sample(session, repeat(TimedCall(call, lambda _call, _shown: None)), SamplingOptions(RULE))
    if isinstance(samples, Failure):
        raise HarnessError(f"The empty kernel does not run: {samples.detail}")
    kept = samples.drop_disturbed()
    # Lower quartiles of idle calls: a delay of the host only adds. Queued calls hide the host, so their median counts.
    idle_us, queued_us = quantile(kept.events_us(Mode.IDLE), 0.25), median(kept.events_us(Mode.QUEUED))
    return EmptyKernelTimes(queued_us, idle_us, kept.beside_us(0.25))


def empty_call(form: EmptyKernelForm, device: str = "cuda") -> Problem:
    """Return arguments that set the launches and results."""
    x = torch.zeros(max(1, form.launches), max(1, form.results), device=device)
    return Problem((x,), (x[0, :1],), ())


class StoredEmptyKernel(Model):
    """The times of one form with their time of measurement."""

    form: EmptyKernelForm
    times: EmptyKernelTimes
    when: float

    def is_fresh(self, now_s: float) -> bool:
        """Return whether the times are below an hour old."""
        # The host's load changes within hours, and with it the wait beside the events. A time in the
        # future (a clock that was set back) counts as old.
        return 0 <= now_s - self.when < OLD_S


class StoredEmptyKernels(Model):
    """The file of times that all processes share."""

    forms: tuple[StoredEmptyKernel, ...]


class EmptyKernels:
    """Times of the empty kernel by form."""

    # Callers hold the GPU exclusively, so one process measures a missing form and the others read its
    # file; no further lock is needed.

    def __init__(
        self,
        machine: CudaMachine,
        toolchain: Toolchain,
        ceilings: Ceilings,
        measure: Measure | None = None,
        clock: Callable[[], float] = time.time,
        program: Callable[[], Path] = worker,
    ) -> None:
        self._clock, self._program = clock, program
        self.machine, self.toolchain, self._ceilings = machine, toolchain, ceilings
        self._measure = measure or (give_empty_kernels if machine.given else measure_empty_kernels)
        self._known: dict[EmptyKernelForm, StoredEmptyKernel] = {}

    @property
    def floor(self) -> Floor:
        """The shortest believable time on this GPU."""
        # No call is shorter than one launch.
        return Floor(self._ceilings, self.times(EmptyKernelForm(1, 1)).queued_us, self.machine.access.l2_bytes())

    def times(self, form: EmptyKernelForm) -> EmptyKernelTimes:
        """Return a form's times, measured if missing or old."""
        self._known = {known: stored for known, stored in self._known.items() if stored.is_fresh(self._clock())}
        if form not in self._known:
            self._known = self._read_file() | self._known
        if form not in self._known:
            missing = [known for known in dict.fromkeys((form, *USUAL_FORMS)) if known not in self._known]
            now = self._measure(self.machine, self.toolchain, missing)
            self._known |= {
                known: StoredEmptyKernel(form=known, times=times, when=self._clock()) for known, times in now.items()
            }
            write_atomic(self._path, StoredEmptyKernels(forms=tuple(self._known.values())).text())
        return self._known[form].times

    def _read_file(self) -> dict[EmptyKernelForm, StoredEmptyKernel]:
        """Return the fresh forms of the shared file."""
        try:
            found = StoredEmptyKernels.parse(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
        return {stored.form: stored for stored in found.forms if stored.is_fresh(self._clock())}

    @cached_property
    def _path(self) -> Path:
        """The file for this GPU, boot and toolchain."""
        boot = BOOT.read_text() if BOOT.exists() else ""
        gpu = self.machine.gpu
        key = digest(self._ceilings.gpu, boot, self.toolchain.key, str(self._program()), gpu.driver, gpu.uuid)
        return Home.locate().data / "empty-kernels" / f"{key}.json"
