"""Every seed compiles against the signature of its task, is right on the virtual GPU, and keeps to what it promises."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from warpsmith.evaluation.check.run import CheckSubject
from warpsmith.evaluation.verify.virtual import run_virtual
from warpsmith.languages.nvcc import Compiled, compile
from warpsmith.machines.virtual import describe
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import (
    Candidate,
    Case,
    CompileFacts,
    Direction,
    Group,
    Language,
    Task,
    Trial,
    Verdict,
    VirtualFacts,
)
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.reference.program import problem
from warpsmith.tasks.suite import folders, suite_program

CORES = 2
PLAIN = {"layernorm", "max_pool", "softmax", "swiglu"}
SUFFIXES = {Language.TORCH: ".cu", Language.PLAIN: ".plain.cu"}
WIDTH = 120
LINES = 270
INSTRUCTIONS = 100_000_000  # of all threads in a smoke call: about a second on the virtual GPU


@dataclass(frozen=True)
class Seed:
    """One seed kernel of the suite."""

    task: Task
    direction: Direction
    language: Language
    path: Path

    @property
    def name(self) -> str:
        """How a test names it."""
        return f"{self.task.name}-{self.direction}-{self.language}"

    @property
    def candidate(self) -> Candidate:
        """The file as a candidate."""
        text = self.path.read_text()
        return Candidate(task=self.task.name, direction=self.direction, source=text, language=self.language)


def seeds() -> list[Seed]:
    """Every seed that is there."""
    found = []
    for folder in folders().values():
        task = read_task(folder)
        for direction in Direction:
            for language, suffix in SUFFIXES.items():
                path = folder / f"seed_{direction}{suffix}"
                found += [Seed(task, direction, language, path)] if path.exists() else []
    return found


SEEDS = seeds()
TORCH = [seed for seed in SEEDS if seed.language == Language.TORCH]
each = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)


@pytest.fixture(scope="module")
def compiled() -> Mapping[str, Compiled]:
    """All seeds compiled, a core each at a time."""

    def one(seed: Seed) -> Compiled:
        return compile(seed.candidate, seed.task.signature(seed.direction))

    with ThreadPoolExecutor(CORES) as pool:
        return dict(zip((seed.name for seed in SEEDS), pool.map(one, SEEDS), strict=True))


def test_each_task_has_both_directions_and_four_are_plain_too() -> None:
    pairs = {(seed.task.name, seed.direction) for seed in TORCH}
    assert pairs == {(name, direction) for name in folders() for direction in Direction}
    plain = [seed for seed in SEEDS if seed.language == Language.PLAIN]
    assert {seed.task.name for seed in plain} == PLAIN
    assert all(seed.direction is Direction.FORWARD for seed in plain)


@each
def test_it_compiles_to_the_task_s_signature(seed: Seed, compiled: Mapping[str, Compiled]) -> None:
    result = compiled[seed.name].result
    assert result.verdict is Verdict.PASS, f"{result.reason}: {result.detail}"
    facts = result.facts
    assert isinstance(facts, CompileFacts)
    assert facts.kernels and all(kernel.spill_store_bytes == 0 for kernel in facts.kernels)


def turned(seed: Seed) -> list[Trial]:
    """A trial for each smoke case, the inits and families taken in turn so that most of them are seen."""
    cases = seed.task.group(Group.SMOKE)
    return [_trial(case, place + (seed.direction is Direction.BACKWARD)) for place, case in enumerate(cases)]


def _trial(case: Case, place: int) -> Trial:
    init, family = case.inits[place % len(case.inits)], case.families[place % len(case.families)]
    return Trial(case=case, init=init, family=family, seed=place)


@each
def test_it_is_right_on_the_virtual_gpu(seed: Seed, compiled: Mapping[str, Compiled]) -> None:
    artifact, gpu = compiled[seed.name].artifact, describe("H200")
    assert artifact is not None
    program = suite_program(seed.task.name)
    subject = CheckSubject(seed.task, seed.direction, partial(problem, program), seed.language)
    signature = seed.task.signature(seed.direction)
    for trial in turned(seed):
        with VirtualSession(artifact, seed.direction.value, signature, gpu) as session:
            result = run_virtual(subject, trial, session, gpu)
        label = f"{trial.case.name} {trial.init} {trial.family}"
        assert result.verdict is Verdict.PASS, f"{label}: {result.reason}: {result.detail}"
        assert isinstance(result.facts, VirtualFacts)
        assert sum(kernel.thread_instructions for kernel in result.facts.kernels) < INSTRUCTIONS, label


@each
def test_every_launch_is_checked_and_goes_to_the_current_stream(seed: Seed) -> None:
    text = seed.path.read_text()
    launches = re.findall(r"<<<(.*?)>>>", text, re.DOTALL)
    checks = len(re.findall(r"C10_CUDA_KERNEL_LAUNCH_CHECK\(\)|cudaGetLastError\(\)", text))
    assert launches and checks == len(launches)
    assert all(re.search(r"(stream|getCurrentCUDAStream\(\))$", launch) for launch in launches)


@each
def test_it_is_simple(seed: Seed) -> None:
    text = seed.path.read_text()
    assert not re.search(r"atomic|cublas|cudnn|\basm\b|cudaMalloc|cudaDeviceSynchronize", text)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.startswith("// ") and len(text.splitlines()) <= LINES
