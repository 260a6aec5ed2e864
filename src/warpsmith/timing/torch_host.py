"""The baseline process: torch's own modes on one case, timed as candidates are. Requests and answers are JSON lines.

python -m warpsmith.timing.torch_host
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from warpsmith.records import Case, Direction, Model, Trial
from warpsmith.tasks.find import OpenOptions, open_task
from warpsmith.tasks.opened import LocalTask
from warpsmith.tasks.program import Program, differentiable, leaves, sided, upstream
from warpsmith.tasks.values import Values, mapped

Step = Callable[[], Any]
FLUSH_BYTES = 256 << 20
GATE_CYCLES = 1_000_000  # about half a millisecond: everything that is queued behind it waits
WARM_CALLS = 3


class Request(Model):
    """One mode of torch on one case."""

    target: str
    direction: Direction
    case: Case
    mode: str
    samples: int
    tf32: bool


class Reply(Model):
    """Event times in microseconds, from an idle device and behind a gate; or why there are none."""

    idle_us: tuple[float, ...] = ()
    queued_us: tuple[float, ...] = ()
    error: str = ""


def forward_step(program: Program, function: Callable[..., Any], arguments: Values) -> Step:
    """The forward pass without gradients."""

    def step() -> Any:
        with torch.no_grad():
            return function(arguments)

    return step


def backward_step(program: Program, function: Callable[..., Any], arguments: Values) -> Step:
    """`autograd.grad` on a graph that is already built."""
    signature = program.task.forward
    fresh = leaves(signature, arguments)
    wanted = [leaf for leaf in differentiable(signature, fresh) if leaf.requires_grad]
    with torch.enable_grad():
        results = function(fresh)
    grads = upstream(results, 1)
    return lambda: torch.autograd.grad(results, wanted, grads, retain_graph=True, allow_unused=True)


STEPS = {Direction.FORWARD: forward_step, Direction.BACKWARD: backward_step}


def compiled(program: Program, mode: str) -> Callable[..., Any]:
    """The function that a mode calls."""
    if mode.startswith("max-autotune"):
        return torch.compile(program.forward, mode="max-autotune-no-cudagraphs", dynamic=False)
    return torch.compile(program.forward, dynamic=False) if mode.startswith("compile") else program.forward


def captured(step: Step) -> Step:
    """The step as one CUDA graph over static inputs."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(WARM_CALLS):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


class Clock:
    """Times a step as the judge times a candidate: cold L2, single calls, idle and queued."""

    def __init__(self) -> None:
        self._scratch = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def time_us(self, step: Step, queued: bool) -> float:
        """One call."""
        self._scratch.fill_(1)
        torch.sum(self._scratch, dtype=torch.int64)
        torch.cuda.synchronize()
        if queued:
            torch.cuda._sleep(GATE_CYCLES)  # type: ignore[no-untyped-call]
        self._begin.record()
        step()
        self._end.record()
        torch.cuda.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e3


class Host:
    """Keeps the steps of the last case, so that a resident baseline answers window after window."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._steps: dict[str, Step] = {}

    def answer(self, request: Request) -> Reply:
        """Time one mode."""
        torch.backends.cuda.matmul.allow_tf32 = request.tf32
        torch.backends.cudnn.allow_tf32 = request.tf32
        step = self._step(request)
        for _ in range(WARM_CALLS):
            step()
        idle = [self._clock.time_us(step, False) for _ in range(request.samples)]
        queued = [self._clock.time_us(step, True) for _ in range(request.samples)]
        return Reply(idle_us=tuple(idle), queued_us=tuple(queued))

    def _step(self, request: Request) -> Step:
        key = json.dumps([request.target, request.direction, request.case.model_dump(mode="json"), request.mode])
        if key not in self._steps:
            self._steps[key] = self._build(request)
        return self._steps[key]

    def _build(self, request: Request) -> Step:
        task = open_task(request.target, OpenOptions(trust=True))
        assert isinstance(task, LocalTask)  # trusted: this process is the confinement
        program = sided(task.program, request.direction)
        arguments = mapped(program.arguments(Trial(case=request.case)), lambda tensor: tensor.cuda())
        step = STEPS[request.direction](program, compiled(program, request.mode), arguments)
        return captured(step) if request.mode.endswith("graph") else step


def main() -> None:
    """Answer requests, a line each, until the input ends."""
    host = Host()
    for line in sys.stdin:
        try:
            reply = host.answer(Request.parse(line))
        except Exception as error:  # noqa: BLE001 - whatever torch.compile raises is this mode's answer, not the end
            reply = Reply(error=f"{type(error).__name__}: {error}"[:500])
        sys.stdout.write(reply.text() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
