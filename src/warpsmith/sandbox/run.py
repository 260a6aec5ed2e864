"""Run a candidate once: on the virtual GPU, on a real one, or not at all. The only room where its code runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from warpsmith.confine import Child, Fault, Limit, Limits, Outcome, Policy, system_paths
from warpsmith.records import Reason
from warpsmith.sandbox.observation import (
    EXECUTOR_GONE,
    SHOWN,
    Observation,
    Trouble,
    of_ending,
    of_failure,
    of_status,
)
from warpsmith.sandbox.protocol import Answer, Claim, call
from warpsmith.sandbox.values import Raw, Value
from warpsmith.sandbox.worker import Conversation, Silence, environment, start, worker
from warpsmith.vgpu import Control, Description, Facts, Gone, Settings, VirtualGpu, describe, runtime

SOCKET_VARIABLE, SOCKET_FD = "WARPSMITH_VGPU_FD", 5  # wire.h; the first descriptor after the frames
WORKER_LIMITS = Limits(wall_s=120, cpu_s=120, memory_bytes=4 << 30, processes=64, output_bytes=1 << 20)
CUDA_LIMITS = Limits(wall_s=120, cpu_s=120, memory_bytes=32 << 30, output_bytes=1 << 20, address_space=False)


class Sandbox(Protocol):
    """Where a candidate runs. Its failures are observations; only a failing harness raises."""

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """Load the artifact in a fresh process, call `entry` once, and say what happened."""
        ...


@dataclass(frozen=True)
class FakeSandbox:
    """Gives the same observation for every candidate; for tests of what comes after."""

    observation: Observation

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """The observation it was made with."""
        return self.observation


@dataclass(frozen=True)
class VirtualSandbox:
    """The virtual GPU. The judge's side puts arguments into device memory and reads results out of it."""

    gpu: Description = field(default_factory=lambda: describe("H200"))
    settings: Settings = field(default_factory=Settings)
    limits: Limits = WORKER_LIMITS
    executor: Path | None = None

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """One call on a virtual GPU of its own."""
        with VirtualGpu(self.gpu, self.settings, self.executor) as gpu:
            more = {SOCKET_VARIABLE: str(SOCKET_FD)}
            policy = _policy(artifact, runtime().parent, self.limits, more)
            with start(policy, [gpu.client.fileno()]) as child:
                gpu.client.close()
                try:
                    return _observe_virtual(child, gpu, artifact, entry, arguments)
                except Gone:
                    return _executor_gone(child, gpu)


@dataclass(frozen=True)
class CudaSandbox:
    """A real GPU, with NVIDIA's runtime from `runtime_folder`; tensors travel as bytes."""

    runtime_folder: Path
    limits: Limits = CUDA_LIMITS

    def run(self, artifact: Path, entry: str, arguments: Sequence[Value]) -> Observation:
        """One call on the first GPU."""
        policy = _policy(artifact, self.runtime_folder, self.limits, {}, devices=True)
        with start(policy) as child:
            talk = Conversation(child, self.limits.wall_s)
            answer = _converse(talk, artifact, call(entry, arguments, None))
            ended = _end(child, talk, answer)
            trouble = _trouble(answer, ended, policy)
            results = () if trouble or isinstance(answer, Silence) else tuple(claim.tensor for claim in answer.results)
            return _observation(trouble, results, None, answer, ended)


def _policy(artifact: Path, folder: Path, limits: Limits, more: dict[str, str], devices: bool = False) -> Policy:
    readable = (*system_paths(), folder, worker().parent, artifact)
    return Policy(read=readable, limits=limits, devices=devices, env=environment(folder, more))


def _converse(talk: Conversation, artifact: Path, payload: bytes) -> Answer | Silence:
    loaded = talk.load(artifact)
    return loaded if isinstance(loaded, Silence) or of_status(loaded) else talk.call(payload)


def _observe_virtual(
    child: Child, gpu: VirtualGpu, artifact: Path, entry: str, arguments: Sequence[Value]
) -> Observation:
    payload = call(entry, arguments, lambda raw: _place(gpu.control, raw))
    talk = Conversation(child, child.policy.limits.wall_s)
    answer = _converse(talk, artifact, payload)
    if isinstance(answer, Silence):
        return _without_answer(child, gpu, answer)
    claims = answer.results if of_status(answer) is None else ()
    found = [_fetch(gpu.control, claim) for claim in claims]
    facts = gpu.control.facts()
    ended = _end(child, talk, answer)
    trouble = of_failure(facts, of_status(answer) is None) or _trouble(answer, ended, child.policy)
    results = tuple(raw for raw in found if raw is not None)
    if trouble is None and len(results) < len(found):
        trouble = Trouble(Reason.BAD_ANSWER, f"Result {found.index(None)} does not lie in device memory.")
    return _observation(trouble, () if trouble else results, facts, answer, ended)


def _without_answer(child: Child, gpu: VirtualGpu, silence: Silence) -> Observation:
    """The worker is gone or mute; if its kernel is what hangs, the executor is ended with it."""
    ended = _end_silent(child, silence)
    if ended.exit_code == EXECUTOR_GONE:
        return _executor_gone(child, gpu)
    trouble = of_ending(ended, ended.sentence(child.policy), silence.error)
    if silence.error is not None and trouble.reason is Reason.TIME_LIMIT:
        gpu.kill()
        return _observation(trouble, (), None, silence, ended)
    facts = gpu.control.facts(finish=False)
    return _observation(of_failure(facts, False) or trouble, (), facts, silence, ended)


def _executor_gone(child: Child, gpu: VirtualGpu) -> Observation:
    child.kill()
    ended, executor = child.wait(), gpu.end()
    sentence = executor.sentence(gpu.policy)
    if executor.stopped is Limit.MEMORY:
        trouble = Trouble(Reason.MEMORY_LIMIT, f"The virtual GPU ran out of memory: {sentence}.")
    elif executor.stopped in (Limit.WALL, Limit.CPU):
        trouble = Trouble(Reason.TIME_LIMIT, f"The virtual GPU was stopped: {sentence}.")
    else:
        trouble = Trouble(Reason.HARNESS, f"The executor of the virtual GPU ended early: {sentence}.")
    return _observation(trouble, (), None, Silence(None, ""), ended)


def _place(control: Control, raw: Raw) -> int:
    if not raw.data:
        return 0
    address = control.allocate(len(raw.data))
    control.write(address, raw.data)
    return address


def _fetch(control: Control, claim: Claim) -> Raw | None:
    raw = claim.tensor
    data = control.read(claim.address, raw.span_bytes) if raw.span_bytes else b""
    return None if data is None else Raw(raw.dtype, raw.shape, raw.strides, data)


def _end(child: Child, talk: Conversation, answer: Answer | Silence) -> Outcome:
    if isinstance(answer, Silence):
        return _end_silent(child, answer)
    talk.leave()
    return child.wait()


def _end_silent(child: Child, silence: Silence) -> Outcome:
    """A worker that closed its end is about to end by itself, and how it does is worth knowing."""
    if silence.error is None or silence.error.fault not in (Fault.MISSING, Fault.SHORT):
        child.kill()
    return child.wait()


def _trouble(answer: Answer | Silence, ended: Outcome, policy: Policy) -> Trouble | None:
    if isinstance(answer, Silence):
        return of_ending(ended, ended.sentence(policy), answer.error)
    if (trouble := of_status(answer)) is not None:
        return trouble
    return None if ended.ok else of_ending(ended, ended.sentence(policy), None)


def _observation(
    trouble: Trouble | None, results: tuple[Raw, ...], facts: Facts | None, answer: Answer | Silence, ended: Outcome
) -> Observation:
    printed = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    seconds = 0.0 if isinstance(answer, Silence) else answer.seconds
    return Observation(trouble, results, facts, seconds, printed[:SHOWN], ended.confined)
