"""The check on the virtual GPU before a real one is used."""

import pytest

from warpsmith.evaluation.stages.virtual import unfit, unless_lacking
from warpsmith.machines.virtual.machine import VirtualMachine
from warpsmith.records import CompileFacts, Reason, StageResult, Verdict


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        (Reason.UNKNOWN_CALL, Verdict.SKIP),
        (Reason.TIME_LIMIT, Verdict.SKIP),
        (Reason.WRONG_VALUE, Verdict.FAIL),
        (Reason.FINDINGS, Verdict.FAIL),
    ],
)
def test_what_the_virtual_gpu_lacks_is_left_to_the_real_one(reason: Reason, verdict: Verdict) -> None:
    found = StageResult(stage="virtual", verdict=Verdict.FAIL, reason=reason, detail="a sentence")
    assert unless_lacking(found).verdict is verdict


@pytest.mark.parametrize(
    ("arch", "libraries", "why"),
    [
        ("sm_86", (), "cannot stand for a GPU of architecture sm_86"),
        ("sm_120a", (), "cannot stand for a GPU of architecture sm_120a"),
        ("sm_90a", ("libcublas.so.13",), "calls libcublas.so.13"),
    ],
)
def test_another_generation_and_a_library_are_left_to_the_real_one(
    arch: str, libraries: tuple[str, ...], why: str
) -> None:
    found = unfit(VirtualMachine.of("H200"), CompileFacts(arch=arch, libraries=libraries))
    assert found is not None and found.verdict is Verdict.SKIP and why in found.detail


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_the_same_generation_is_tried(arch: str) -> None:
    assert unfit(VirtualMachine.of("H200"), CompileFacts(arch=arch)) is None
