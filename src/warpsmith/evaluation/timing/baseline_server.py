"""The baseline process: times torch's modes as candidates are timed.

Run as `python -m warpsmith.evaluation.timing.baseline_server`.
"""

import gc
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.isolation import Frame, answer_requests, take_channel
from warpsmith.machines.cuda import events_us
from warpsmith.machines.cuda.flush import flush
from warpsmith.records import Case, Direction, Model, TorchMode, Trial
from warpsmith.tasks.host import LocalTask, OpenOptions, open_task
from warpsmith.tasks.inputs import Values, mapped
from warpsmith.tasks.reference import TaskProgram, differentiable, leaves, sided, upstream

Step = Callable[[], Any]  # one call of a mode
REQUEST, REPLY, RELEASE = 1, 2, 3
IDLE_S = 3600.0
REQUEST_BYTES = 1 << 20
GATE_CYCLES = 1_000_000  # about half a millisecond: the time in which the host queues a call
WARM_CALLS = 3


class TorchRequest(Model):
    """A request for one mode on one case; 0 samples only compile."""

    target: str
    direction: Direction
    case: Case
    mode: TorchMode
    samples: int
    tf32: bool
    cold: bool = True


class TorchReply(Model):
    """Times of a mode in microseconds, or its error."""

    idle_us: tuple[float, ...] = ()
    queued_us: tuple[float, ...] = ()
    flush_us: tuple[float, ...] = ()
    error: str = ""
    lost: bool = False  # the GPU no longer works for this process: the next request needs another process


def forward_step(program: TaskProgram, function: Callable[..., Any], arguments: Values) -> Step:
    """Return a step that runs forward without gradients."""

    def step() -> Any:
        """Run one forward pass."""
        with torch.no_grad():
            return function(arguments)

    return step


def backward_step(program: TaskProgram, function: Callable[..., Any], arguments: Values) -> Step:
    """Return a step that runs backward on one graph."""
    # The graph is built once and retained: a candidate for backward is timed without forward, and so is
    # torch.
    signature = program.task.forward
    fresh = leaves(signature, arguments)
    wanted = [leaf for leaf in differentiable(signature, fresh) if leaf.requires_grad]
    with torch.enable_grad():
        results = function(fresh)
    grads = upstream(results, 1)
    return lambda: torch.autograd.grad(results, wanted, grads, retain_graph=True, allow_unused=True)


STEPS = {Direction.FORWARD: forward_step, Direction.BACKWARD: backward_step}


def compile_mode(program: TaskProgram, mode: TorchMode) -> Callable[..., Any]:
    """Return a mode's function, compiled if it has a compiler."""
    # `dynamic=False`: a candidate may be specialized for the sizes of a case, so torch may be as well.
    return torch.compile(program.forward, mode=mode.compiler, dynamic=False) if mode.compiler else program.forward


@dataclass(frozen=True)
class GraphStep:
    """A step as a CUDA graph with its inputs."""

    # A graph holds addresses only. `step` keeps the tensors at these addresses alive.

    graph: torch.cuda.CUDAGraph
    step: Step

    def __call__(self) -> None:
        """Replay the graph."""
        self.graph.replay()


def capture_graph(make: Callable[[], Step]) -> GraphStep:
    """Return a step captured as one CUDA graph."""
    # One stream for inputs, warm calls and capture: a step reads inputs that were written on this stream,
    # and autograd runs backward on the stream of its forward. Warm calls come first, since lazy
    # initialization and autotuning cannot be captured.
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        step = make()
        for _ in range(WARM_CALLS):
            step()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            step()
    torch.cuda.synchronize()
    return GraphStep(graph, step)


def refuse_timed_choices() -> None:
    """Disable stored choices by timing in this process."""
    # The GPU is shared while modes are only compiled, so a choice by timing would be a worse one. The
    # choice of a kernel's configuration is not stored; a choice that becomes part of the graph, such as
    # padding, raises, and no graph is stored.
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    _replace(AutotuneCache, "save", lambda *_arguments, **_options: None)
    _replace(pad_mm, "get_do_bench", lambda: _raise_shared)


def _replace(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Replace a function of torch by name."""
    # Compiled graphs pickle the function by name, and mean torch's own function where they are loaded.
    getattr(owner, name)  # raises on a torch that renamed it, so that nothing wrong is stored
    # Compiled graphs pickle this function by its name; where they are loaded, the name means torch's own.
    replacement.__name__ = name
    setattr(owner, name, replacement)


def _raise_shared(*_arguments: Any, **_options: Any) -> float:
    """Raise: torch may not choose by timing here."""
    raise RuntimeError("torch chooses by timing here, and the GPU is shared")


class StepTimer:
    """A timer of single calls, as for a candidate."""

    # The flush and the events are those of a candidate's call, and queued calls wait behind a gate as
    # well: else the ratio would compare two methods and not two kernels.

    def __init__(self, cold: bool) -> None:
        self._cold = cold
        self.flushes_us: list[float] = []

    def time_call(self, step: Step, queued: bool) -> float:
        """Return one call's event time in microseconds."""
        # The gate of a queued call is a sleeping kernel of about half a millisecond, behind which the
        # host queues the whole call.
        if self._cold:
            self.flushes_us.append(flush())
        else:
            torch.cuda.synchronize()
        if queued:
            torch.cuda._sleep(GATE_CYCLES)  # type: ignore[no-untyped-call]
        return events_us(step)


class BaselineServer:
    """The steps of the last case, compiled once."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._functions: dict[str, Callable[..., Any]] = {}  # by compiler: a mode and its CUDA graph compile once
        self._program: TaskProgram | None = None
        self._case = ""

    def respond(self, frame: Frame) -> Frame:
        """Return the reply to one frame."""
        if frame.kind == RELEASE:
            self.release_memory()
            return Frame(REPLY, TorchReply().text().encode())
        request = TorchRequest.parse(frame.payload.decode())
        try:
            reply = self.time_mode(request)
        except Exception as error:  # noqa: BLE001 - an error of torch.compile is this mode's result, and no fault
            reply = TorchReply(error=f"{type(error).__name__}: {error}"[:500], lost=not _gpu_works())
        return Frame(REPLY, reply.text().encode())

    def time_mode(self, request: TorchRequest) -> TorchReply:
        """Return a mode's times; 0 samples only compile."""
        if not request.samples:
            refuse_timed_choices()
        torch.backends.cuda.matmul.allow_tf32 = request.tf32
        torch.backends.cudnn.allow_tf32 = request.tf32
        step, timer = self._find_step(request), StepTimer(request.cold)
        for _ in range(WARM_CALLS):
            step()
        idle = [timer.time_call(step, queued=False) for _ in range(request.samples)]
        queued = [timer.time_call(step, queued=True) for _ in range(request.samples)]
        return TorchReply(idle_us=tuple(idle), queued_us=tuple(queued), flush_us=tuple(timer.flushes_us))

    def _find_step(self, request: TorchRequest) -> Step:
        """Return the mode's step, built if missing."""
        case = json.dumps([request.target, request.direction, request.case.model_dump(mode="json")])
        if case != self._case:
            self.release_memory()
            self._case = case
        if request.mode not in self._steps:
            self._steps[request.mode] = self._build_step(request)
        return self._steps[request.mode]

    def release_memory(self) -> None:
        """Free the last case and reset torch.compile."""
        self._steps.clear()
        self._functions.clear()
        self._program = None
        self._case = ""
        torch._dynamo.reset()  # after a number of shapes torch.compile would fall back to eager
        gc.collect()
        torch.cuda.empty_cache()

    def _build_step(self, request: TorchRequest) -> Step:
        """Build the step of a mode."""
        program = self._program = self._program or _load_program(request)
        compiler = request.mode.compiler
        if compiler not in self._functions:
            self._functions[compiler] = compile_mode(program, request.mode)

        def make() -> Step:
            """Return the step on fresh arguments on the GPU."""
            with torch.device("cuda"):
                arguments = mapped(program.arguments(Trial(case=request.case)), lambda tensor: tensor.cuda())
            return STEPS[request.direction](program, self._functions[compiler], arguments)

        return capture_graph(make) if request.mode.graph else make()


def _load_program(request: TorchRequest) -> TaskProgram:
    """Open the task in this process."""
    # Trusted here: this process is already the confinement of the task's code.
    task = open_task(request.target, OpenOptions(trust=True))
    assert isinstance(task, LocalTask)  # trusted: this process is the confinement
    return sided(task.program, request.direction)


def _gpu_works() -> bool:
    """Return whether the GPU still works for this process."""
    try:
        torch.cuda.synchronize()
    except Exception:  # noqa: BLE001 - any error means that it does not
        return False
    return True


def main() -> None:
    """Answer requests until the pipe closes."""
    os.umask(0)  # files compiled here are for the next process, which has another uid: see `compiled_folder`
    requests, answers = take_channel()
    answer_requests(
        requests,
        answers,
        BaselineServer().respond,
        idle_s=IDLE_S,
        limit_bytes=REQUEST_BYTES,
        write_s=IDLE_S,
    )
    os._exit(0)  # does not wait for the compiler's own worker processes


if __name__ == "__main__":
    main()
