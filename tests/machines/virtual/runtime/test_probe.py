"""The stand-in's answers to wrong calls and to questions, line by line against those of a real H200."""

from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, HERE, LIMITS, artifact

from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.worker import CudaSandbox, Sandbox, VirtualSandbox

# What we say no to on purpose: managed memory and host pointers inside kernels are refused here.
OURS = {"attribute 83=1": "attribute 83=0", "attribute 91=1": "attribute 91=0", "attribute 113=1": "attribute 113=0"}
MEASURED = Path(__file__).with_name("h200.txt").read_text().splitlines()


def answers(sandbox: Sandbox) -> list[str]:
    """The lines of the probe; it complains with them, and so ends in failure."""
    failure = sandbox.run(artifact(HERE / "probe.cu"), "probe", [EIGHT]).failure
    assert failure is not None
    return failure.detail.splitlines()


def test_the_virtual_gpu_answers_as_the_real_one_does() -> None:
    assert answers(VirtualSandbox(limits=LIMITS)) == [OURS.get(line, line) for line in MEASURED]


@pytest.mark.gpu
def test_the_real_gpu_still_answers_as_it_did() -> None:
    assert answers(CudaSandbox(Toolchain.find().runtime.parent)) == MEASURED
