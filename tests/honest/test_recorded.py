"""Each honest control, and each published kernel, recorded on the virtual GPU: all of it can be asked for again."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warpsmith.evaluation.corpus import read_specimen
from warpsmith.isolation import Frame, ProcessLimits
from warpsmith.languages import language_of
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.virtual import ExecutorSettings, VirtualGpu, describe, runtime
from warpsmith.machines.worker.protocol import FrameKind, Status, WorkerReply, call, parse_recorded
from warpsmith.machines.worker.run import _place, worker_policy
from warpsmith.machines.worker.tensors import to_raw, to_values
from warpsmith.machines.worker.worker import Conversation, start
from warpsmith.records import Candidate, Direction, Group, Language, Trial
from warpsmith.tasks.host import open_task

torch.set_num_threads(1)
CONTROLS = sorted(Path(__file__).parent.glob("*.cu"))
KERNELS = sorted((Path(__file__).parents[2] / "kernels").glob("*/*.cu"))
LIMITS = ProcessLimits(wall_s=60, cpu_s=60, memory_bytes=4 << 30, output_bytes=1 << 20)


def fault_of(path: Path, task: str, direction: Direction, calls: int = 2) -> str:
    """Why the last of some calls of the smallest case cannot be repeated."""
    source, opened = path.read_text(), open_task(task)
    described, language = opened.describe(), language_of(source)
    candidate = Candidate(task=task, direction=direction, source=source, language=language)
    made = compile(candidate, described.signature(direction), CompileOptions.of(described))
    assert made.artifact is not None, made.result.detail
    case = described.group(Group.SMOKE)[0]
    problem = opened.problem(direction, Trial(case=case))
    values = to_values(problem.arguments, described.signature(direction))
    if language == Language.PLAIN:
        values = (*values, *(to_raw(torch.zeros_like(like)) for like in problem.native))
    with VirtualGpu(describe("H200"), ExecutorSettings(memory_bytes=1 << 30, wall_s=60)) as gpu:
        policy = worker_policy(made.artifact, runtime().parent, LIMITS, {"WARPSMITH_VGPU_FD": "5"})
        with start(replace(policy, read=(*policy.read, made.artifact.parent)), [gpu.client.fileno()]) as child:
            gpu.client.close()
            talk = Conversation(child, 60)
            talk.load(made.artifact)
            for number in range(calls):
                payload = call(
                    direction.value, values, lambda raw: _place(gpu.control, raw), recorded=number == calls - 1
                )
                answer = talk.call(payload)
                assert isinstance(answer, WorkerReply) and answer.status is Status.DONE, answer
            found = talk.exchange(Frame(FrameKind.RECORD), FrameKind.RECORDED)
    assert isinstance(found, Frame)
    recording = parse_recorded(found.payload)
    assert bool(recording.operations) is not bool(recording.fault)
    return recording.fault


@pytest.mark.parametrize("path", CONTROLS, ids=lambda path: path.stem)
def test_a_control_can_be_recorded(path: Path) -> None:
    specimen = read_specimen(path)
    assert specimen is not None
    assert fault_of(path, specimen.task, specimen.direction) == ""


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_published_kernel_can_be_recorded(path: Path) -> None:
    assert fault_of(path, path.parent.name, Direction(path.stem)) == ""


EARLY = "that does not wait for the current one"
EXPLOITS = Path(__file__).parents[1] / "exploits"


@pytest.mark.parametrize(
    ("name", "why"),
    [("60_unforked_side_stream", EARLY), ("60_disguised_pointers", EARLY), ("01_side_stream_small", "")],
)
def test_streams_that_wait_for_nobody_are_told(name: str, why: str) -> None:
    """The second is honest on the virtual GPU, and shows on a real one."""
    specimen = read_specimen(EXPLOITS / f"{name}.cu")
    assert specimen is not None
    assert fault_of(EXPLOITS / f"{name}.cu", specimen.task, specimen.direction).endswith(why)
