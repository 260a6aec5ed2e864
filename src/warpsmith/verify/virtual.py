"""The virtual stage: one call of a candidate on the virtual GPU, its findings, its results against the reference."""

import time
from dataclasses import dataclass
from pathlib import Path

from warpsmith.check.compare import Comparison, compare
from warpsmith.check.fault import EXPLAINED, sentence, verdict_of
from warpsmith.check.terms import equal_terms
from warpsmith.records import Direction, Reason, Severity, StageResult, Task, Trial, Verdict, VirtualFacts
from warpsmith.sandbox import Observation, Sandbox
from warpsmith.sandbox.tensors import to_tensor, to_values
from warpsmith.tasks.program import Problem
from warpsmith.vgpu import Description

STAGE = "virtual"


@dataclass(frozen=True)
class VirtualRun:
    """What is to be run: an artifact for one direction of a task, on inputs drawn once."""

    artifact: Path
    task: Task
    direction: Direction
    trial: Trial
    problem: Problem


def run_virtual(run: VirtualRun, sandbox: Sandbox, gpu: Description) -> StageResult:
    """PASS, or what is wrong; SKIP where the virtual GPU itself lacks an instruction."""
    started = time.perf_counter()
    signature = run.task.signature(run.direction)
    observation = sandbox.run(run.artifact, run.direction.value, to_values(run.problem.arguments, signature))
    verdict, reason, detail, worst = judge(run, observation)
    return StageResult(
        stage=STAGE,
        verdict=verdict,
        reason=reason,
        detail=detail,
        facts=facts_of(observation, gpu, run.trial.case.name, worst),
        seconds=time.perf_counter() - started,
    )


def facts_of(observation: Observation, gpu: Description, case: str, worst: float | None) -> VirtualFacts:
    """The stage's facts; of a candidate whose executor ended nothing is known."""
    facts = observation.facts.record(gpu, case) if observation.facts else VirtualFacts(case=case)
    log = facts.log + observation.output
    return facts.model_copy(update={"log": log, "worst_error": worst})


def judge(run: VirtualRun, observation: Observation) -> tuple[Verdict, Reason | None, str, float | None]:
    """The verdict, its reason, a sentence, and how near the error came to its bound."""
    errors = [raw.finding() for raw in observation.facts.findings] if observation.facts else []
    errors = [finding for finding in errors if finding.severity is Severity.ERROR]
    trouble = observation.trouble
    if trouble and not (errors and trouble.reason in EXPLAINED):
        return verdict_of(trouble), trouble.reason, trouble.detail, None
    if errors:
        return Verdict.FAIL, Reason.FINDINGS, sentence(errors), None
    compared = compare_results(run, observation)
    if not compared.passed:
        return Verdict.FAIL, compared.reason, compared.detail, compared.worst
    return Verdict.PASS, None, "", compared.worst


def compare_results(run: VirtualRun, observation: Observation) -> Comparison:
    """The results against the problem's reference."""
    found = [to_tensor(raw) for raw in observation.results]
    names = run.task.signature(run.direction).results
    equal = equal_terms(run.task, run.trial)
    return compare(found, run.problem, names, run.task.tolerance, run.trial.case, equal)
