"""Timing on a real GPU: a seed against torch's modes, and the same kernel against itself."""

import pytest
import torch

from warpsmith.evaluation.profile import find_ceilings
from warpsmith.evaluation.timing.baseline_process import preload_torch
from warpsmith.evaluation.timing.capture import CapturedCalls, capture_alone
from warpsmith.evaluation.timing.empty_kernel import EmptyKernels
from warpsmith.evaluation.timing.rules import compare_speeds, speed_ratio
from warpsmith.evaluation.timing.sample import Examine, SamplingOptions, TimedCall
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.stage import CLAIM, Timer
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.evaluation.timing.window import Window, WindowSource
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.cuda.session import CALL_S
from warpsmith.machines.hardware import gpus
from warpsmith.machines.hardware.leases import Need, lease
from warpsmith.machines.worker.session import Mode, Shown
from warpsmith.records import (
    Candidate,
    Case,
    Direction,
    Dtype,
    Failure,
    Group,
    Language,
    Reason,
    SpeedComparison,
    TimingFacts,
    Trial,
    Verdict,
)
from warpsmith.tasks.host import open_task
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite_folder

pytestmark = [pytest.mark.gpu, pytest.mark.leases]
CASE = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "cols": 4096}, dtype=Dtype.FLOAT32)


@pytest.fixture(scope="module")
def timer() -> Timer:
    toolchain = Toolchain.find()
    with lease(Need.ALONE):
        kernels = EmptyKernels(CudaMachine.first(), toolchain, find_ceilings(gpus()[0], toolchain))
        return Timer(kernels, "test", torch.__version__)


def subject() -> TimingSubject:
    opened = open_task("softmax")
    task = opened.describe()
    source = (suite_folder("softmax") / "seed_forward.cu").read_text()
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source=source)
    made = compile(candidate, task.forward, CompileOptions.of(task))
    assert made.artifact is not None, made.result.detail
    return TimingSubject(opened, "softmax", task, Direction.FORWARD, made.artifact, language=Language.TORCH, launches=1)


def close(call: Problem, shown: Shown) -> Failure | None:
    if torch.allclose(shown.results[0].double(), call.expected[0], atol=1e-5):
        return None
    return Failure(Reason.WRONG_VALUE, "off")


def examine(_trial: Trial) -> Examine:
    return close


def recordings(timer: Timer, one: TimingSubject) -> CapturedCalls:
    with lease(Need.SHARED):
        found = capture_alone(one, timer.empty_kernels.toolchain.runtime.parent, [CASE], examine, CALL_S)
    assert not isinstance(found, Failure), found
    return found


def test_a_seed_is_timed_against_every_mode_of_torch(timer: Timer) -> None:
    one, wait_for_torch = subject(), preload_torch("softmax")
    recorded = recordings(timer, one)
    assert wait_for_torch is not None
    wait_for_torch()
    with (
        lease(Need.ALONE),
        TimingSession(one, CudaMachine.first(), recorded.arenas, CALL_S) as timing_session,
    ):
        result = timer.time_cases(timing_session, one, [CASE], examine, recorded)
    assert result.verdict is Verdict.PASS, result.detail
    assert isinstance(result.facts, TimingFacts)
    found = result.facts.cases[0]
    assert set(found.baselines) == {"eager", "compile", "max-autotune", "eager-graph", "compile-graph"}, found.notes
    assert found.roofline is not None
    assert 0.1 < found.roofline <= 1.0
    assert found.speedup is not None


def test_a_kernel_against_itself_is_never_faster(timer: Timer) -> None:
    one = subject()
    recorded = recordings(timer, one)
    with (
        lease(Need.ALONE),
        TimingSession(one, CudaMachine.first(), recorded.arenas, CALL_S) as timing_session,
    ):
        calls = (TimedCall(call, close) for _, call in one.calls(CASE))
        making = WindowSource(
            timing_session, timer.empty_kernels, calls, SamplingOptions(CLAIM), recorded.calls[CASE.name]
        )
        first, second = (making.measure(number, one.outline(CASE)) for number in range(2))
    assert isinstance(first, Window) and isinstance(second, Window)
    assert first.is_sound and second.is_sound
    assert abs(first.us / second.us - 1) < 0.02
    times = [window.kept.events_us(Mode.QUEUED) for window in (first, second)]
    assert compare_speeds(speed_ratio(times[0], times[1]), [first.us / second.us]) is not SpeedComparison.FASTER
    assert compare_speeds(speed_ratio(times[1], times[0]), [second.us / first.us]) is not SpeedComparison.FASTER
