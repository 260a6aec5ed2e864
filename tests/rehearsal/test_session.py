"""A session of a real GPU, there and rehearsed: seeds pass, and everything a call does beside its result is seen."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from stage import ON_A_GPU

from warpsmith.evaluation.check.compare import Budget, compare
from warpsmith.evaluation.timing import ARENA_ADDRESSES
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.cuda.room import room_for
from warpsmith.machines.cuda.session import CudaSession, RepeatableCall
from warpsmith.machines.cuda.slot import Edge
from warpsmith.machines.hardware.leases import Need
from warpsmith.machines.worker.session import Mode, Shown
from warpsmith.records import Candidate, Direction, Group, Reason, Trial
from warpsmith.tasks.reference.program import problem
from warpsmith.tasks.suite import suite_folder, suite_program

HEAD = "#include <torch/extension.h>\n__global__ void twice(const float* x, float* y, int n, int spin) {\n"
HEAD += "  for (int i = 0; i < spin; ++i) __nanosleep(1000);\n"
HEAD += "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
TAIL = '\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }\n'
LAUNCH = "twice<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>"
X = torch.arange(1000, dtype=torch.float32)
CALL_S, ANYWHERE = 60.0, (0, 0, 0)


def artifact(source: str, task: str = "test") -> Path:
    made = compile(Candidate(task=task, direction=Direction.FORWARD, source=source), None, CompileOptions())
    assert made.artifact is not None, made.result.detail
    return made.artifact


@contextmanager
def opened(
    machine: CudaMachine, body: str, need: Need = Need.SHARED, bases: Sequence[int] = ANYWHERE
) -> Iterator[CudaSession]:
    """Compiled before it takes the GPU: others wait for whoever has it."""
    source = f"{HEAD}torch::Tensor forward(torch::Tensor x) {{ int n = x.numel(); {body} }}{TAIL}"
    made, room = artifact(source), room_for((X,), (X,), machine.access.margins)
    with machine.lease(need), machine.session(made, Direction.FORWARD, room, CALL_S, bases) as session:
        yield session


def on_host(shown: Shown) -> Shown:
    return replace(shown, results=tuple(tensor.cpu() for tensor in shown.results))


def one(machine: CudaMachine, body: str, mode: Mode = Mode.IDLE) -> Shown:
    with opened(machine, body) as session:
        return on_host(session.call((X,), mode=mode))


# exit_group, which leaves no symbol for the link policy to see.
LEAVE = 'asm volatile("syscall" :: "a"(231), "D"(0) : "rcx", "r11"); return x;'
HONEST = f"auto y = torch::empty_like(x); {LAUNCH}(x.data_ptr<float>(), y.data_ptr<float>(), n, 0); return y;"


@pytest.mark.parametrize("mode", list(Mode))
def test_an_honest_kernel_shows_nothing_odd(machine: CudaMachine, mode: Mode) -> None:
    shown = one(machine, HONEST, mode)
    assert shown.failure is None
    assert torch.equal(shown.results[0], 2 * X)
    assert (shown.changed, shown.aliased, shown.unwritten, shown.overrun) == ((), (), (), False)
    assert shown.settled
    assert shown.clocks is not None
    assert 0 < shown.clocks.event_us < shown.clocks.wall_us


def test_an_input_changed_in_place_is_seen(machine: CudaMachine) -> None:
    shown = one(machine, f"{LAUNCH}(x.data_ptr<float>(), x.data_ptr<float>(), n, 0); return x.clone();")
    assert shown.changed == (0,)


def test_an_input_given_back_is_aliased(machine: CudaMachine) -> None:
    assert one(machine, "return x;").aliased == (0,)


def test_an_output_with_a_gap_is_unwritten(machine: CudaMachine) -> None:
    body = HONEST.replace("data_ptr<float>(), n, 0)", "data_ptr<float>(), n - 1, 0)")
    assert one(machine, body).unwritten == (0,)


def test_a_write_past_an_argument_is_an_overrun(machine: CudaMachine) -> None:
    body = f"{LAUNCH}(x.data_ptr<float>(), x.data_ptr<float>() + n + 8, 4, 0); {HONEST}"
    assert one(machine, body).overrun


def test_work_on_a_side_stream_that_nobody_joins_is_late(machine: CudaMachine) -> None:
    body = "auto y = torch::zeros_like(x); static cudaStream_t s = nullptr;"
    body += "if (!s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);"
    body += "twice<<<(n + 255) / 256, 256, 0, s>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, 200); return y;"
    assert not one(machine, body, Mode.QUEUED).settled


def test_a_static_workspace_lives_over_calls(machine: CudaMachine) -> None:
    body = "static torch::Tensor kept; if (!kept.defined()) { kept = torch::empty_like(x);"
    body += f"{LAUNCH}(x.data_ptr<float>(), kept.data_ptr<float>(), n, 0); }} return kept.clone();"
    with opened(machine, body) as session:
        first, second = (on_host(session.call((X + i,), slot=i)) for i in range(2))
    assert torch.equal(first.results[0], second.results[0])


def test_a_refusal_is_trouble_and_sticks(machine: CudaMachine) -> None:
    with opened(machine, 'TORCH_CHECK(n == 3, "three elements only, not ", n); return x;') as session:
        failures = [session.call((X,)).failure for _ in range(2)]
    assert failures[0] is not None
    assert failures[0].reason is Reason.CANDIDATE_ERROR
    assert failures[0] == failures[1]


@pytest.fixture
def healthy(machine: CudaMachine) -> Iterator[None]:
    """After a fault of one candidate the next one's numbers are as if nothing had been."""
    yield
    assert torch.equal(one(machine, HONEST).results[0], 2 * X)


@pytest.mark.parametrize("is_end", [True, False])
def test_a_read_beyond_an_argument_is_an_error_where_the_memory_ends(machine: CudaMachine, is_end: bool) -> None:
    """Past the block that torch's allocator would have given; elsewhere the guard zone is read in silence.

    The arenas lie far apart, as in an evaluation. An address of the driver's choice may lie right behind another arena.
    """
    offset = 512 if is_end else -128
    body = HONEST.replace("x.data_ptr<float>(), y", f"x.data_ptr<float>() + {offset}, y")
    edge = Edge(0, is_end)
    with opened(machine, body, bases=ARENA_ADDRESSES) as session:
        assert session.record((X,))[0].failure is None
    with opened(machine, body, bases=ARENA_ADDRESSES) as session:
        assert session.record((X,), edge=edge)[0].failure is not None
    with opened(machine, HONEST, bases=ARENA_ADDRESSES) as session:
        shown, recorded = session.record((X,), edge=edge)
        assert shown.failure is None and torch.equal(on_host(shown).results[0], 2 * X)
        assert isinstance(recorded, RepeatableCall) and recorded.edge == edge
        assert session.record((X,))[0].failure is None


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{LAUNCH}(nullptr, nullptr, n, 0); return x.clone();", Reason.LAUNCH_ERROR),
        ("volatile int* p = nullptr; *p = 1; return x;", Reason.CRASH),
        (LEAVE, Reason.BAD_ANSWER),
    ],
)
def test_a_fault_is_a_value(machine: CudaMachine, body: str, reason: Reason) -> None:
    failure = one(machine, body).failure
    assert failure is not None
    assert failure.reason is reason


def test_confinement_is_whole(machine: CudaMachine) -> None:
    with opened(machine, HONEST) as session:
        assert session.confined.at_floor


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("name", ["softmax", "layernorm", "linear", "max_pool"])
def test_seeds_are_right(machine: CudaMachine, name: str, direction: Direction) -> None:
    program = suite_program(name)
    task = program.task
    source = (suite_folder(name) / f"seed_{direction}.cu").read_text()
    made = compile(Candidate(task=name, direction=direction, source=source), task.signature(direction))
    assert made.artifact is not None
    for case in task.group(Group.SMOKE)[:2]:
        call = problem(program, direction, Trial(case=case, seed=7))
        room = room_for(call.arguments, call.native, machine.access.margins)
        with (
            machine.lease(Need.SHARED),
            machine.session(made.artifact, direction, room, CALL_S, ANYWHERE) as session,
        ):
            shown = on_host(session.call(call.arguments))
        outcome = compare(list(shown.results), call, task.signature(direction).results, Budget.of(task.tolerance, case))
        assert outcome.passed, f"{case.name}: {outcome.detail}"


@pytest.mark.parametrize("machine", [ON_A_GPU], indirect=True)
def test_queued_time_has_no_launch_gap(machine: CudaMachine) -> None:
    with opened(machine, HONEST, Need.ALONE) as session:
        idle = min(session.call((X,), slot=i, mode=Mode.IDLE).clocks.event_us for i in range(9))  # type: ignore[union-attr]
        queued = min(session.call((X,), slot=i, mode=Mode.QUEUED).clocks.event_us for i in range(9))  # type: ignore[union-attr]
    assert queued < idle
