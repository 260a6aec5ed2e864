"""The virtual stage: what was observed becomes a verdict with a reason."""

from pathlib import Path

import pytest
import torch

from warpsmith.records import (
    Case,
    Checker,
    Direction,
    Dtype,
    Group,
    Origin,
    Reason,
    Signature,
    StageResult,
    Task,
    Tolerance,
    Trial,
    Verdict,
    VirtualFacts,
)
from warpsmith.sandbox import FakeSandbox, Observation, Trouble
from warpsmith.sandbox.tensors import to_raw
from warpsmith.tasks.program import Problem
from warpsmith.verify.virtual import VirtualRun, run_virtual
from warpsmith.vgpu import Facts, RawFinding, describe

CASE = Case(name="smoke", group=Group.SMOKE, axes={"n": 4}, dtype=Dtype.FLOAT32)
TASK = Task(
    name="t",
    version="1",
    origin=Origin.SUITE,
    description="",
    source="",
    forward=Signature(arguments=(), results=("y",)),
    cases=(CASE,),
    tolerance=Tolerance(norm_floor={Dtype.FLOAT32: 1e-6}),
)
RIGHT = torch.arange(4.0)
RACE = RawFinding(
    checker=Checker.RACE,
    message="two threads write the same word",
    kernel="k",
    block=(0, 0, 0),
    thread=(1, 0, 0),
    file="k.cu",
    line=12,
    column=1,
    start=64,
    bytes=4,
    space="shared",
    count=3,
)


def stage(observation: Observation) -> StageResult:
    run = VirtualRun(Path("a.so"), TASK, Direction.FORWARD, Trial(case=CASE), Problem((), (RIGHT,), (RIGHT.double(),)))
    return run_virtual(run, FakeSandbox(observation), describe("H200"))


def seen(tensor: torch.Tensor | None = RIGHT, trouble: Trouble | None = None, *findings: RawFinding) -> Observation:
    results = () if tensor is None else (to_raw(tensor),)
    return Observation(trouble, results, Facts(findings=findings))


def test_right_results_without_findings_pass() -> None:
    result = stage(seen())
    assert result.verdict is Verdict.PASS and result.reason is None
    assert isinstance(result.facts, VirtualFacts)
    assert result.facts.case == "smoke" and result.facts.worst_error == 0.0


@pytest.mark.parametrize(
    ("observation", "reason"),
    [
        (seen(RIGHT + 1), Reason.WRONG_VALUE),
        (seen(RIGHT.reshape(2, 2)), Reason.WRONG_SHAPE),
        (seen(RIGHT.double()), Reason.WRONG_DTYPE),
        (seen(None), Reason.BAD_ANSWER),
        (seen(RIGHT, None, RACE), Reason.FINDINGS),
        (seen(None, Trouble(Reason.CRASH, "SIGSEGV")), Reason.CRASH),
        (seen(None, Trouble(Reason.LAUNCH_ERROR, "700"), RACE), Reason.FINDINGS),
        (seen(None, Trouble(Reason.TIME_LIMIT, "late"), RACE), Reason.TIME_LIMIT),
        (seen(None, Trouble(Reason.UNKNOWN_CALL, "cudaMallocManaged")), Reason.UNKNOWN_CALL),
    ],
)
def test_whatever_is_wrong_fails_with_its_reason(observation: Observation, reason: Reason) -> None:
    result = stage(observation)
    assert result.verdict is Verdict.FAIL
    assert result.reason is reason


def test_a_finding_is_told_with_its_line() -> None:
    result = stage(seen(RIGHT, None, RACE))
    assert result.detail == "k.cu:12: race: two threads write the same word"


def test_an_instruction_we_lack_is_a_skip_and_our_fault_is_a_fault() -> None:
    lacking = stage(seen(None, Trouble(Reason.UNKNOWN_INSTRUCTION, "wgmma.mma_async")))
    assert lacking.verdict is Verdict.SKIP and "wgmma" in lacking.detail
    ours = stage(Observation(Trouble(Reason.HARNESS, "the executor ended")))
    assert ours.verdict is Verdict.FAULT
