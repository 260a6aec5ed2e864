"""Single calls of a candidate, on any machine."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from warpsmith.isolation import Child, FrameError, ProcessLimits, machine_paths
from warpsmith.machines.virtual import Control, Description, ExecutorSettings, Gone, VirtualGpu, describe, runtime
from warpsmith.machines.worker.ending import end, executor_gone, observation, reply_failure, without_answer
from warpsmith.machines.worker.observation import SHOWN, Observation, executor_failure, status_failure
from warpsmith.machines.worker.protocol import ReportedTensor, WorkerReply, call
from warpsmith.machines.worker.values import Raw, Value
from warpsmith.machines.worker.worker import UNDER_TOOL, Conversation, start, visible_gpu, worker_policy
from warpsmith.records import Failure, Reason

SOCKET_VARIABLE, SOCKET_FD = "WARPSMITH_VGPU_FD", 5  # wire.h; the first descriptor after the frames
WORKER_LIMITS = ProcessLimits(wall_s=120, cpu_s=120, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20)
CUDA_LIMITS = ProcessLimits(wall_s=120, cpu_s=120, memory_bytes=32 << 30, output_bytes=1 << 20, address_space=False)
TOOL_SHOWN = 1 << 20  # characters of what a tool around the worker prints
ANSWER_BYTES = 2 << 30  # where results travel as bytes
NOT_THERE = "Result {number} does not lie in device memory, or the results together are more than that holds."


class Sandbox(Protocol):
    """A place for one call in a fresh process."""

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """Load an artifact, call `entry` once, return the observation."""
        ...


@dataclass(frozen=True)
class FakeSandbox:
    """A sandbox with one given observation."""

    observation: Observation

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """Return the given observation."""
        return self.observation


@dataclass(frozen=True)
class VirtualSandbox:
    """A sandbox on the virtual GPU."""

    gpu: Description = field(default_factory=lambda: describe("H200"))
    settings: ExecutorSettings = field(default_factory=ExecutorSettings)
    limits: ProcessLimits = WORKER_LIMITS
    executor: Path | None = None

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """Make one call on a virtual GPU of its own."""
        with VirtualGpu(self.gpu, self.settings, self.executor) as gpu:
            more = {SOCKET_VARIABLE: str(SOCKET_FD)}
            policy = worker_policy(artifact, runtime().parent, self.limits, more)
            with start(policy, [gpu.client.fileno()]) as child:
                gpu.client.close()
                try:
                    return _observe_virtual(child, gpu, artifact, entry, arguments)
                except Gone as gone:
                    return executor_gone(child, gpu, gone)


@dataclass(frozen=True)
class CudaSandbox:
    """A sandbox on a real GPU; tensors travel as bytes."""

    # `around` is the command line of a tool that starts the worker. The tool reads its own files, hence
    # `tool_paths`.

    runtime_folder: Path
    limits: ProcessLimits = CUDA_LIMITS
    around: tuple[str, ...] = ()
    tool_paths: tuple[Path, ...] = ()
    uuid: str = ""  # of the GPU; empty: the first visible one

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value], calls: int = 1) -> Observation:
        """Make equal calls; return the last or the first failed one."""
        more = {**visible_gpu(self.uuid), **(UNDER_TOOL if self.around else {})}
        policy = worker_policy(artifact, self.runtime_folder, self.limits, more, devices=True)
        tools = (*machine_paths(), *self.tool_paths) if self.around else ()
        policy = replace(policy, read=(*policy.read, *tools))
        with start(policy, around=self.around) as child:
            talk = Conversation(child, self.limits.wall_s, ANSWER_BYTES)
            answer = call_repeatedly(talk, artifact, call(entry, arguments, None), calls)
            ended = end(child, talk, answer)
            failure = reply_failure(answer, ended, child)
            results = (
                () if failure or isinstance(answer, FrameError) else tuple(claim.tensor for claim in answer.results)
            )
            return observation(failure, results, None, answer, ended, TOOL_SHOWN if self.around else SHOWN)


def call_repeatedly(talk: Conversation, artifact: Path, payload: bytes, calls: int = 1) -> WorkerReply | FrameError:
    """Load an artifact and repeat a call; stop at a failure."""
    answer = talk.load(artifact)
    for _ in range(calls):
        if isinstance(answer, FrameError) or status_failure(answer):
            break
        answer = talk.call(payload)
    return answer


def _observe_virtual(
    child: Child, gpu: VirtualGpu, artifact: Path, entry: str, arguments: Sequence[Value]
) -> Observation:
    """Make one call; return its observation."""
    payload = call(entry, arguments, lambda raw: _place(gpu.control, raw))
    talk = Conversation(child, child.policy.limits.wall_s)
    answer = call_repeatedly(talk, artifact, payload)
    if isinstance(answer, FrameError):
        return without_answer(child, gpu, answer)
    claims = answer.results if status_failure(answer) is None else ()
    found = fetch(gpu.control, claims, gpu.settings)
    facts = gpu.control.facts()
    ended = end(child, talk, answer)
    failure = executor_failure(facts, status_failure(answer) is None) or reply_failure(answer, ended, child)
    results = tuple(raw for raw in found if raw is not None)
    if failure is None and len(results) < len(found):
        failure = Failure(Reason.BAD_ANSWER, NOT_THERE.format(number=found.index(None)))
    return observation(failure, () if failure else results, facts, answer, ended)


def _place(control: Control, raw: Raw) -> int:
    """Write a tensor to new device memory; 0 if empty."""
    if not raw.data:
        return 0
    address = control.allocate(len(raw.data))
    control.write(address, raw.data)
    return address


def fetch(control: Control, claims: Sequence[ReportedTensor], settings: ExecutorSettings) -> list[Raw | None]:
    """Return results with bytes; None outside device memory."""
    # Views of one allocation may together be many times larger than the memory of the caller, so above
    # the device's own size no result is read.
    together = sum(max(claim.tensor.copied_bytes, claim.tensor.span_bytes) for claim in claims)
    if together > settings.memory_bytes:
        return [None] * len(claims)
    return [_fetched(control, claim) for claim in claims]


def _fetched(control: Control, claim: ReportedTensor) -> Raw | None:
    """Return one result with its bytes, or None."""
    raw = claim.tensor
    data = control.read(claim.address, raw.span_bytes) if raw.span_bytes else b""
    return None if data is None else replace(raw, data=data)
