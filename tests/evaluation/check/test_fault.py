"""The order in which one call is looked at, and the evidence that each fault carries."""

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from warpsmith.evaluation.check.compare import Comparison
from warpsmith.evaluation.check.fault import check_call
from warpsmith.evaluation.check.precision import narrower_format
from warpsmith.machines.virtual import Facts, RawFinding
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
    Precision,
    Reason,
    Role,
    Signature,
    Task,
    Tolerance,
    Trial,
    Verdict,
)
from warpsmith.tasks.reference.program import Problem

CASE = Case(name="c", group=Group.SMOKE, axes={"k": 64}, dtype=Dtype.FLOAT32)
TASK = Task(
    name="t",
    version="1",
    origin=Origin.SUITE,
    description="",
    source="",
    forward=Signature(arguments=(Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),), results=("y", "z")),
    cases=(CASE,),
    tolerance=Tolerance(norm_floor={Dtype.FLOAT32: 1e-6}, reduction="k"),
)
A = torch.randn(48, 64, generator=torch.Generator().manual_seed(1))
B = torch.randn(64, 40, generator=torch.Generator().manual_seed(2))
Y = A @ B
Z = torch.arange(6.0).reshape(2, 3)
PROBLEM = Problem((A,), (Y, Z), (A.double() @ B.double(), Z.double()))
GOOD = Shown(None, (Y, Z), facts=Facts())
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


def looked(shown: Shown, task: Task = TASK) -> Comparison:
    return check_call(shown, PROBLEM, task, Direction.FORWARD, Trial(case=CASE))


def reason(shown: Shown, task: Task = TASK) -> Reason | None:
    fault = looked(shown, task).failure
    return fault.reason if fault else None


def test_a_right_call_has_no_fault_and_says_how_near_it_came() -> None:
    found = looked(GOOD)
    assert found.failure is None and 0 < found.worst < 1


WORSE_AND_WORSE = (
    (Reason.WRONG_VALUE, {"results": (Y + 1, Z)}),
    (Reason.FINDINGS, {"facts": Facts(findings=(RACE,))}),
    (Reason.OVERRUN, {"overrun": True}),
    (Reason.UNWRITTEN, {"unwritten": (1,)}),
    (Reason.LATE_WRITE, {"settled": False}),
    (Reason.ALIASED, {"aliased": (0,)}),
    (Reason.INPUT_CHANGED, {"changed": (0,)}),
    (Reason.WRONG_LAYOUT, {"results": (Y, Z.T.contiguous().T)}),
    (Reason.WRONG_DTYPE, {"results": (Y.double(), Z.T.contiguous().T)}),
    (Reason.WRONG_SHAPE, {"results": (Y.double(), Z.reshape(3, 2))}),
    (Reason.BAD_ANSWER, {"results": (Y.double(),)}),
    (Reason.CRASH, {"failure": Failure(Reason.CRASH, "SIGSEGV")}),
)


def test_the_first_fault_decides() -> None:
    """Each further fault is added to all those before, and is told instead of them."""
    shown = GOOD
    for expected, change in WORSE_AND_WORSE:
        shown = replace(shown, **change)
        assert reason(shown) is expected


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        ({"changed": (0,)}, "argument x"),
        ({"aliased": (1,)}, "z lies in the memory"),
        ({"unwritten": (0, 1)}, "y, z holds memory"),
        ({"results": (Y, Z.reshape(3, 2))}, r"z has shape \(3, 2\); expected \(2, 3\)"),
        ({"results": (Y.half(), Z)}, "y is float16; expected float32"),
        ({"results": (Y, Z[:, :1].expand(2, 3))}, r"z has strides \(3, 0\); expected \(3, 1\)"),
        ({"facts": Facts(findings=(RACE,))}, "k.cu:12: race: two threads"),
        ({"results": (Y, Z + torch.eye(2, 3))}, r"z\[0, 0\] is 1; expected 0"),
    ],
)
def test_a_fault_carries_its_evidence(change: dict[str, object], evidence: str) -> None:
    fault = looked(replace(GOOD, **change)).failure  # type: ignore[arg-type]
    assert fault is not None
    assert re.search(evidence, fault.detail), fault.detail


def test_a_finding_is_told_rather_than_the_error_it_caused() -> None:
    broken = replace(GOOD, results=(), failure=Failure(Reason.LAUNCH_ERROR, "700"), facts=Facts(findings=(RACE,)))
    assert reason(broken) is Reason.FINDINGS
    assert reason(replace(broken, failure=Failure(Reason.TIME_LIMIT, "late"))) is Reason.TIME_LIMIT


def test_what_the_virtual_gpu_lacks_is_a_skip_and_our_fault_is_a_fault() -> None:
    lacking = looked(Shown(Failure(Reason.UNKNOWN_INSTRUCTION, "wgmma"))).failure
    ours = looked(Shown(Failure(Reason.HARNESS, "gone"))).failure
    assert lacking is not None and lacking.reason.verdict is Verdict.SKIP
    assert ours is not None and ours.reason.verdict is Verdict.FAULT


def test_torch_s_own_layout_is_as_good_as_a_contiguous_one() -> None:
    turned = Y.T.contiguous().T
    problem = replace(PROBLEM, native=(turned, Z))
    for result in (turned, Y):
        shown = replace(GOOD, results=(result, Z))
        assert check_call(shown, problem, TASK, Direction.FORWARD, Trial(case=CASE)).failure is None


def narrowed(tensor: Tensor, bits: int) -> Tensor:
    """A float32 tensor with so many bits of its mantissa dropped by rounding."""
    scale = 1 << bits
    whole = tensor.view(torch.int32)
    return ((whole + scale // 2) & ~(scale - 1)).view(torch.float32)


@pytest.mark.parametrize(("bits", "name"), [(13, "TF32"), (16, "bfloat16")])
def test_a_narrower_product_is_told_as_precision(bits: int, name: str) -> None:
    shown = replace(GOOD, results=(narrowed(A, bits) @ narrowed(B, bits), Z))
    fault = looked(shown).failure
    assert fault is not None and fault.reason is Reason.PRECISION and name in fault.detail
    assert reason(shown, TASK.model_copy(update={"precision": Precision(tf32=True)})) is Reason.WRONG_VALUE


def test_other_errors_do_not_resemble_a_format() -> None:
    dropped = Y.clone()
    dropped[-1] = 0
    assert narrower_format((dropped, Z), PROBLEM) is None
    assert narrower_format((Y * (1 + 1e-5), Z), PROBLEM) is None
    assert narrower_format((Y * float("nan"), Z), PROBLEM) is None
