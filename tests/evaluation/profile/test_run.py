"""A whole profile: on the virtual GPU, and on a GPU whose tools refuse one after the other."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warpsmith.evaluation.profile import ProfileJob, datasheet_ceilings, profile_cuda, profile_virtual, run as profiling
from warpsmith.evaluation.profile.ncu import Counted, Refusal
from warpsmith.evaluation.profile.ncu_table import read_launches
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda.profiled import Walls
from warpsmith.machines.virtual import describe
from warpsmith.machines.worker import FakeSandbox, Observation, VirtualSandbox
from warpsmith.records import (
    Binding,
    Candidate,
    CompileFacts,
    Direction,
    Failure,
    Group,
    KernelProfile,
    Language,
    MeasuredTime,
    ModelledTime,
    ProfileFacts,
    ProfileSource,
    Reason,
    Trial,
)
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import suite_folder

GPU = describe("H200")
CAPTURED = Path(__file__).parent / "captured"


@pytest.fixture(scope="module")
def job() -> ProfileJob:
    return made("seed_forward.cu", Language.TORCH)


def made(name: str, language: Language) -> ProfileJob:
    source = (suite_folder("softmax") / name).read_text()
    with open_task("softmax") as opened:
        task = opened.describe()
        candidate = Candidate(task="softmax", direction=Direction.FORWARD, source=source, language=language)
        built = compile(candidate, task.forward, CompileOptions.of(task))
        assert built.artifact is not None
        assert isinstance(built.result.facts, CompileFacts)
        trial = Trial(case=task.group(Group.SMOKE)[0])
        problem = opened.problem(Direction.FORWARD, trial)
    return ProfileJob(task, Direction.FORWARD, trial, problem, built.artifact, source, built.result.facts, language)


def test_a_seed_on_the_virtual_gpu(job: ProfileJob) -> None:
    facts = profile_virtual(job, GPU, VirtualSandbox(GPU))
    assert facts.source is ProfileSource.VGPU
    assert isinstance(facts.time, ModelledTime)
    (kernel,) = facts.kernels
    assert kernel.spill_bytes == 0
    assert facts.place is not None
    assert facts.place.binding is Binding.LATENCY  # a smoke case is over before its launch has paid off
    assert facts.place.fraction is not None
    assert 0 < facts.place.fraction < 1


def test_a_plain_kernel_is_given_its_results() -> None:
    facts = profile_virtual(made("seed_forward.plain.cu", Language.PLAIN), GPU, VirtualSandbox(GPU))
    assert facts.source is ProfileSource.VGPU


def test_what_the_virtual_gpu_lacks_leaves_the_compiler(job: ProfileJob) -> None:
    lacking = FakeSandbox(Observation(Failure(Reason.UNKNOWN_INSTRUCTION, "wgmma.mma_async")))
    facts = profile_virtual(job, GPU, lacking)
    assert facts.source is ProfileSource.PTXAS
    assert facts.passed_over[0].why == "wgmma.mma_async"
    assert facts.kernels[0].registers is not None
    assert facts.time is None


def test_no_launch_at_all_leaves_the_compiler_too(job: ProfileJob) -> None:
    facts = profile_virtual(job, GPU, FakeSandbox(Observation(None)))
    assert facts.passed_over[0].why == "the call launched no kernel"


def profiled_without_ncu(job: ProfileJob, seen: "tuple[KernelProfile, ...] | Refusal") -> ProfileFacts:
    def refuse(*_given: object) -> Refusal:
        return Refusal("ncu is not on PATH")

    toolchain, rates = Toolchain.find(), datasheet_ceilings(GPU)
    return profile_cuda(job, toolchain, rates, count_events=refuse, see_activity=lambda *_given: seen)


def test_without_counters_the_times_of_kernels(job: ProfileJob) -> None:
    time = MeasuredTime(us=5.0, low_us=4.0, high_us=6.0, samples=1)
    facts = profiled_without_ncu(job, (KernelProfile(name="softmax", launches=2, time=time),))
    assert facts.source is ProfileSource.CUPTI
    assert [one.source for one in facts.passed_over] == [ProfileSource.NCU]
    assert facts.time == MeasuredTime(us=10.0, low_us=8.0, high_us=12.0, samples=1)
    assert facts.place is not None
    assert facts.place.fraction is not None


def test_without_either_the_compiler_and_both_reasons(job: ProfileJob) -> None:
    facts = profiled_without_ncu(job, Refusal("CUPTI is not here"))
    assert facts.source is ProfileSource.PTXAS
    assert [one.why for one in facts.passed_over] == ["ncu is not on PATH", "CUPTI is not here"]


def test_with_counters_every_kernel_and_what_was_left_out(job: ProfileJob) -> None:
    launches = read_launches((CAPTURED / "ncu_metrics.csv").read_text())
    tried: list[tuple[Walls, ...]] = []

    def count(subject: object, walls: tuple[Walls, ...]) -> Counted:
        tried.append(walls)
        return Counted(launches, (), Walls.OWN, limited=True)

    facts = profile_cuda(job, Toolchain.find(), datasheet_ceilings(GPU), trust=True, count_events=count)
    assert (facts.source, len(facts.kernels)) == (ProfileSource.NCU, 5)
    assert any("there may be more" in note for note in facts.notes)
    assert any("own walls" in note for note in facts.notes)
    profile_cuda(job, Toolchain.find(), datasheet_ceilings(GPU), count_events=count)
    assert [Walls.OPEN in walls for walls in tried] == [True, False]  # only a trusted candidate runs in the open


def test_a_task_without_formulas_counts_what_goes_in_and_out(job: ProfileJob) -> None:
    bare = replace(job, task=job.task.model_copy(update={"cost": {}}))
    facts = profile_virtual(bare, GPU, VirtualSandbox(GPU))
    assert facts.place is not None
    moved = 2 * sum(tensor.numel() * 4 for tensor in job.problem.arguments if isinstance(tensor, torch.Tensor))
    assert facts.place.floor_us == pytest.approx(moved / GPU.rates.copy_bytes_per_s * 1e6, rel=0.01)
    assert facts.place.intensity is None


def test_arguments_that_do_not_fit_into_a_frame_are_not_tried(job: ProfileJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_BYTES", 16)
    facts = profile_cuda(job, Toolchain.find(), datasheet_ceilings(GPU))
    assert facts.source is ProfileSource.PTXAS
    assert "at most 16" in facts.passed_over[0].why
