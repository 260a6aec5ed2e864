"""The same worker on a real GPU, with NVIDIA's runtime."""

from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, HERE, artifact, numbers

from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.worker import CudaSandbox
from warpsmith.records import Reason

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def sandbox() -> CudaSandbox:
    return CudaSandbox(Toolchain.find().runtime.parent)


@pytest.fixture(scope="module")
def made() -> dict[str, Path]:
    """Compiled before a test has the GPU."""
    return {name: artifact(HERE / f"{name}.cu") for name in ("calls", "faults")}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("launch", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("legacy_stream", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("host_copies", [0, 4, 6, 8, 10, 12, 14, 16]),
        ("rows", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("strided", [0, 1, 0, 2, 0, 3, 0, 4]),
        ("symbols", [10, 200, 30, 400, 5, 6, 7, 8]),
        ("joined", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("captured", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("built_graph", [1, 1, 1, 1, 0, 0, 0, 0]),
        ("spoiled_capture", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("opted_in", [2, 4, 6, 8, 5, 6, 7, 8]),
        ("extended_launch", [3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_the_calls_give_what_they_give_on_the_virtual_gpu(
    sandbox: CudaSandbox, made: dict[str, Path], entry: str, expected: list[float]
) -> None:
    observation = sandbox.run(made["calls"], entry, [EIGHT])
    assert observation.failure is None, observation.failure
    assert numbers(observation.results[0]) == expected


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("misaligned", Reason.LAUNCH_ERROR),
        ("trap", Reason.LAUNCH_ERROR),
        ("too_many_threads", Reason.LAUNCH_ERROR),
        ("dereference", Reason.CRASH),
        ("gives_host_pointer", Reason.BAD_ANSWER),
    ],
)
def test_faults_have_reasons_there_too(sandbox: CudaSandbox, made: dict[str, Path], entry: str, reason: Reason) -> None:
    observation = sandbox.run(made["faults"], entry, [EIGHT])
    assert observation.failure is not None
    assert observation.failure.reason is reason
