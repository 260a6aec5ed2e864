"""The virtual stage: what was observed becomes a verdict with a reason."""

from dataclasses import replace

import pytest
import torch

from warpsmith.evaluation.check.run import CheckSubject
from warpsmith.evaluation.verify.virtual import run_virtual
from warpsmith.machines.virtual import Facts, RawFinding, describe
from warpsmith.machines.worker.fake_session import FakeSession
from warpsmith.machines.worker.session import Shown
from warpsmith.records import (
    Argument,
    ArgumentKind,
    Case,
    Checker,
    Direction,
    Dtype,
    Failure,
    Group,
    Origin,
    Reason,
    Role,
    Signature,
    StageResult,
    Task,
    Tolerance,
    Trial,
    Verdict,
    VirtualFacts,
)
from warpsmith.tasks.reference.program import Problem

CASE = Case(name="smoke", group=Group.SMOKE, axes={"n": 4}, dtype=Dtype.FLOAT32)
TASK = Task(
    name="t",
    version="1",
    origin=Origin.SUITE,
    description="",
    source="",
    forward=Signature(arguments=(Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),), results=("y",)),
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


SUBJECT = CheckSubject(TASK, Direction.FORWARD, lambda direction, trial: Problem((), (RIGHT,), (RIGHT.double(),)))


def stage(shown: Shown) -> StageResult:
    return run_virtual(SUBJECT, Trial(case=CASE), FakeSession(lambda arguments: shown), describe("H200"))


def seen(tensor: torch.Tensor | None = RIGHT, failure: Failure | None = None, *findings: RawFinding) -> Shown:
    return Shown(failure, () if tensor is None else (tensor,), facts=Facts(findings=findings))


def test_right_results_without_findings_pass() -> None:
    result = stage(seen())
    assert result.verdict is Verdict.PASS and result.reason is None
    assert isinstance(result.facts, VirtualFacts)
    assert result.facts.case == "smoke" and result.facts.worst_error == 0.0


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (seen(RIGHT + 1), Reason.WRONG_VALUE),
        (seen(RIGHT.reshape(2, 2)), Reason.WRONG_SHAPE),
        (seen(RIGHT.double()), Reason.WRONG_DTYPE),
        (seen(torch.zeros(8)[::2]), Reason.WRONG_LAYOUT),
        (seen(RIGHT * (1 + 2**-11)), Reason.PRECISION),
        (replace(seen(), changed=(0,)), Reason.INPUT_CHANGED),
        (seen(None), Reason.BAD_ANSWER),
        (seen(RIGHT, None, RACE), Reason.FINDINGS),
        (seen(None, Failure(Reason.CRASH, "SIGSEGV")), Reason.CRASH),
        (seen(None, Failure(Reason.LAUNCH_ERROR, "700"), RACE), Reason.FINDINGS),
        (seen(None, Failure(Reason.TIME_LIMIT, "late"), RACE), Reason.TIME_LIMIT),
        (seen(None, Failure(Reason.UNKNOWN_CALL, "cudaMallocManaged")), Reason.UNKNOWN_CALL),
    ],
)
def test_whatever_is_wrong_fails_with_its_reason(shown: Shown, reason: Reason) -> None:
    result = stage(shown)
    assert result.verdict is Verdict.FAIL
    assert result.reason is reason


def test_a_finding_is_told_with_its_line() -> None:
    result = stage(seen(RIGHT, None, RACE))
    assert result.detail == "k.cu:12: race: two threads write the same word"


def test_an_instruction_we_lack_is_a_skip_and_our_fault_is_a_fault() -> None:
    lacking = stage(seen(None, Failure(Reason.UNKNOWN_INSTRUCTION, "wgmma.mma_async")))
    assert lacking.verdict is Verdict.SKIP and "wgmma" in lacking.detail
    ours = stage(Shown(Failure(Reason.HARNESS, "the executor ended")))
    assert ours.verdict is Verdict.FAULT
