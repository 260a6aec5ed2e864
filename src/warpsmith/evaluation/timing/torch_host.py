"""The baseline process: torch's own modes on one case, timed as candidates are. Frames on descriptors 3 and 4.

python -m warpsmith.evaluation.timing.torch_host
"""

import gc
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.machines.cuda import events_us
from warpsmith.machines.cuda.flush import flush
from warpsmith.records import Case, Direction, Model, TorchMode, Trial
from warpsmith.tasks.host import LocalTask, open_task
from warpsmith.tasks.host.find import OpenOptions
from warpsmith.tasks.inputs import Values, mapped
from warpsmith.tasks.reference import TaskProgram, differentiable, leaves, sided, upstream

Step = Callable[[], Any]
REQUEST, REPLY, FORGET = 1, 2, 3
REQUESTS, REPLIES, HIGH = 3, 4, 200
IDLE_S = 3600.0
REQUEST_BYTES = 1 << 20
GATE_CYCLES = 1_000_000  # about half a millisecond: everything that is queued behind it waits
WARM_CALLS = 3


class TorchRequest(Model):
    """One mode of torch on one case; no samples: only prepare it, beside others on the GPU."""

    target: str
    direction: Direction
    case: Case
    mode: TorchMode
    samples: int
    tf32: bool
    cold: bool = True


class TorchReply(Model):
    """Event times in microseconds, from an idle device and behind a gate; or why there are none."""

    idle_us: tuple[float, ...] = ()
    queued_us: tuple[float, ...] = ()
    flush_us: tuple[float, ...] = ()
    error: str = ""
    lost: bool = False  # the GPU answers this process no more: the next question needs another one


def forward_step(program: TaskProgram, function: Callable[..., Any], arguments: Values) -> Step:
    """The forward pass without gradients."""

    def step() -> Any:
        with torch.no_grad():
            return function(arguments)

    return step


def backward_step(program: TaskProgram, function: Callable[..., Any], arguments: Values) -> Step:
    """`autograd.grad` on a graph that is already built."""
    signature = program.task.forward
    fresh = leaves(signature, arguments)
    wanted = [leaf for leaf in differentiable(signature, fresh) if leaf.requires_grad]
    with torch.enable_grad():
        results = function(fresh)
    grads = upstream(results, 1)
    return lambda: torch.autograd.grad(results, wanted, grads, retain_graph=True, allow_unused=True)


STEPS = {Direction.FORWARD: forward_step, Direction.BACKWARD: backward_step}


def compiled(program: TaskProgram, mode: TorchMode) -> Callable[..., Any]:
    """Return the function that a mode calls."""
    return torch.compile(program.forward, mode=mode.compiler, dynamic=False) if mode.compiler else program.forward


@dataclass(frozen=True)
class Captured:
    """A step as a CUDA graph. The graph knows the inputs by address alone: the step keeps them where they are."""

    graph: torch.cuda.CUDAGraph
    step: Step

    def __call__(self) -> None:
        """All of it."""
        self.graph.replay()


def captured(make: Callable[[], Step]) -> Captured:
    """The step as one CUDA graph over static inputs.

    All of it on one stream: what a step reads was written there before, and gradients run where their forward ran.
    """
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        step = make()
        for _ in range(WARM_CALLS):
            step()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            step()
    torch.cuda.synchronize()
    return Captured(graph, step)


def disbelieve() -> None:
    """From now on keep no choice that torch makes by timing: the GPU is shared, and such a choice a worse one.

    What the autotuner picks among a kernel's configurations is forgotten with this process. Where a choice would become
    part of the compiled graph, as the padding of a product does, compiling fails and nothing is kept.
    """
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    _replace(AutotuneCache, "save", lambda *_arguments, **_options: None)
    _replace(pad_mm, "get_do_bench", lambda: _refuse)


def _replace(owner: Any, name: str, instead: Callable[..., Any]) -> None:
    getattr(owner, name)  # a torch that names it otherwise prepares nothing
    instead.__name__ = name  # pickled by its name into the compiled graph, it is torch's own where that is loaded
    setattr(owner, name, instead)


def _refuse(*_arguments: Any, **_options: Any) -> float:
    raise RuntimeError("torch chooses by timing here, and the GPU is shared")


class StepTimer:
    """Times a step as the judge times a candidate: single calls, idle and queued, the cache as it is asked for."""

    def __init__(self, cold: bool) -> None:
        self._cold = cold
        self.flushes_us: list[float] = []

    def one(self, step: Step, queued: bool) -> float:
        """One call in microseconds."""
        if self._cold:
            self.flushes_us.append(flush())
        else:
            torch.cuda.synchronize()
        if queued:
            torch.cuda._sleep(GATE_CYCLES)  # type: ignore[no-untyped-call]
        return events_us(step)


class Host:
    """Keeps the steps of the last case, so that a resident baseline answers window after window."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._functions: dict[str, Callable[..., Any]] = {}  # a mode and the same under a graph compile once
        self._program: TaskProgram | None = None
        self._case = ""

    def answer(self, request: TorchRequest) -> TorchReply:
        """Time one mode."""
        if not request.samples:
            disbelieve()
        torch.backends.cuda.matmul.allow_tf32 = request.tf32
        torch.backends.cudnn.allow_tf32 = request.tf32
        step, times = self._step(request), StepTimer(request.cold)
        for _ in range(WARM_CALLS):
            step()
        idle = [times.one(step, False) for _ in range(request.samples)]
        queued = [times.one(step, True) for _ in range(request.samples)]
        return TorchReply(idle_us=tuple(idle), queued_us=tuple(queued), flush_us=tuple(times.flushes_us))

    def _step(self, request: TorchRequest) -> Step:
        case = json.dumps([request.target, request.direction, request.case.model_dump(mode="json")])
        if case != self._case:
            self.forget()
            self._case = case
        if request.mode not in self._steps:
            self._steps[request.mode] = self._build(request)
        return self._steps[request.mode]

    def forget(self) -> None:
        """Let a case's tensors go, and what was compiled: after some shapes torch.compile falls back to eager."""
        self._steps.clear()
        self._functions.clear()
        self._program = None
        self._case = ""
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()

    def _build(self, request: TorchRequest) -> Step:
        program = self._program = self._program or _program(request)
        compiler = request.mode.compiler
        if compiler not in self._functions:
            self._functions[compiler] = compiled(program, request.mode)

        def make() -> Step:
            with torch.device("cuda"):
                arguments = mapped(program.arguments(Trial(case=request.case)), lambda tensor: tensor.cuda())
            return STEPS[request.direction](program, self._functions[compiler], arguments)

        return captured(make) if request.mode.graph else make()


def _program(request: TorchRequest) -> TaskProgram:
    task = open_task(request.target, OpenOptions(trust=True))
    assert isinstance(task, LocalTask)  # trusted: this process is the confinement
    return sided(task.program, request.direction)


def reply(host: Host, request: TorchRequest) -> TorchReply:
    """The times, or one sentence: whatever torch.compile raises is this mode's answer and not the end."""
    try:
        return host.answer(request)
    except Exception as error:  # noqa: BLE001 - see above
        return TorchReply(error=f"{type(error).__name__}: {error}"[:500], lost=not _answers())


def _answers() -> bool:
    """Whether the GPU still works for this process: some faults end that for good, and every later mode would fail."""
    try:
        torch.cuda.synchronize()
    except Exception:  # noqa: BLE001 - whatever it is
        return False
    return True


def main() -> None:
    """Answer requests until the judge closes."""
    os.umask(0)  # what is compiled here is for the next process too, which is somebody else: see `compiled`
    channel = [
        os.dup2(fd, HIGH + fd, inheritable=False) for fd in (REQUESTS, REPLIES)
    ]  # not for the compiler's workers
    host, requests, replies = Host(), FrameReader(channel[0]), FrameWriter(channel[1])
    os.close(REQUESTS)
    os.close(REPLIES)
    while not isinstance(frame := requests.read(IDLE_S, REQUEST_BYTES), FrameError):
        if frame.kind == FORGET:
            host.forget()
            found = TorchReply()
        else:
            found = reply(host, TorchRequest.parse(frame.payload.decode()))
        if replies.write(Frame(REPLY, found.text().encode()), IDLE_S) is not None:
            break
    os._exit(0)  # what the compiler's workers still do is of no interest


if __name__ == "__main__":
    main()
