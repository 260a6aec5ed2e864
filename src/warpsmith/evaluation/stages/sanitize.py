"""The sanitizer stage: one small case under compute-sanitizer."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from warpsmith.evaluation.check import SanitizerReport, case_work, read_sanitizer
from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, StageOutcome
from warpsmith.languages import find_language
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import calling
from warpsmith.machines.worker import CudaSandbox, Observation
from warpsmith.records import (
    Case,
    Checker,
    Finding,
    Reason,
    Record,
    SanitizerFacts,
    Severity,
    StageResult,
    Trial,
    Verdict,
)
from warpsmith.tasks.inputs import KeyedRandom, input_seed

STAGE = "sanitizer"
BOUNDS = (Checker.OUT_OF_BOUNDS, Checker.MISALIGNED)
DECIDING = "memcheck"  # its bounds; the other tools are wrong about wgmma, and only inform
CALLS = {DECIDING: 40, "racecheck": 1, "synccheck": 1}  # a kernel may read out of bounds after some calls only
SPARED = "The virtual GPU has checked memory, races and barriers; a claim runs compute-sanitizer as well."
WITHOUT_GPU = "compute-sanitizer needs an NVIDIA GPU, which a rehearsed one is not."
MISSING = "compute-sanitizer is not on PATH; it comes with the CUDA toolkit."


def sanitize(evaluation: Evaluation, artifact: Artifact) -> StageOutcome:
    """Search for memory errors with NVIDIA's compute-sanitizer."""
    # The three tools run side by side, since each slows a kernel down by a factor of hundreds.
    begin = time.perf_counter()
    program = shutil.which("compute-sanitizer")
    if not evaluation.machine.driver:
        return StageOutcome(StageResult(stage=STAGE, verdict=Verdict.SKIP, detail=WITHOUT_GPU))
    if why := not_needed(evaluation.record, evaluation.config.tier, program):
        return StageOutcome(StageResult(stage=STAGE, verdict=Verdict.SKIP, detail=why))
    case, run = smallest(evaluation), partial(_report, evaluation, artifact, Path(str(program)))
    with calling(evaluation.machine.uuid), ThreadPoolExecutor(len(CALLS)) as pool:
        reports = dict(zip(CALLS, pool.map(lambda tool: run(tool, case), CALLS), strict=True))
    return StageOutcome(concluded(reports, case, time.perf_counter() - begin))


def not_needed(record: Record, tier: str, program: str | None) -> str:
    """Return the reason to skip the tools, else empty text."""
    if program is None:
        return MISSING
    virtual = record.result("virtual")
    looked = virtual is not None and virtual.verdict is Verdict.PASS
    return SPARED if looked and tier == "search" else ""


def smallest(evaluation: Evaluation) -> Case:
    """Return the case with the least work."""
    task, direction = evaluation.task, evaluation.candidate.direction
    return min(task.cases, key=lambda case: case_work(task, direction, case))


def concluded(reports: dict[str, SanitizerReport], case: Case, seconds: float) -> StageResult:
    """Return the stage's result from all reports."""
    # Only memcheck's bounds decide. Other findings are stored as facts: racecheck and synccheck report
    # false errors for wgmma.
    findings = tuple(finding for report in reports.values() for finding in report.findings)
    decisive = reports[DECIDING].findings if DECIDING in reports else ()
    errors = [one for one in decisive if one.severity is Severity.ERROR and one.checker in BOUNDS]
    ended = tuple(tool for tool, report in reports.items() if report.errors is not None)
    facts = SanitizerFacts(case=case.name, tools=ended, findings=findings)
    if errors:
        detail = f"{_said(errors[0])} ({case.name}; {len(errors)} findings)"
        return StageResult(
            stage=STAGE, verdict=Verdict.FAIL, reason=Reason.SANITIZER, detail=detail, facts=facts, seconds=seconds
        )
    if DECIDING not in ended:
        remarks = "; ".join(dict.fromkeys(text for report in reports.values() for text in report.remarks))
        detail = f"compute-sanitizer did not come to its end here: {remarks or 'it printed nothing'}."
        return StageResult(stage=STAGE, verdict=Verdict.SKIP, detail=detail[:500], facts=facts, seconds=seconds)
    return StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts, seconds=seconds)


def _said(finding: Finding) -> str:
    """Return a finding as a sentence."""
    where = f" at line {finding.place.line}" if finding.place else ""
    return f"{finding.kernel or 'a call'}{where}: {finding.message}"


def _report(evaluation: Evaluation, artifact: Artifact, program: Path, tool: str, case: Case) -> SanitizerReport:
    """Run one tool on one case; return its report."""
    # The inputs follow from the evaluation's seed, so a finding can be reproduced from the record.
    from warpsmith.machines.worker import to_values

    direction = evaluation.candidate.direction
    seed = input_seed(KeyedRandom(evaluation.seed, "sanitize"))
    problem = evaluation.opened.problem(direction, Trial(case=case, seed=seed))
    given = find_language(evaluation.candidate.language).passed_results(problem.native)
    values = to_values([*problem.arguments, *given])
    home = program.resolve().parent
    sandbox = CudaSandbox(
        Toolchain.find().runtime.parent,
        uuid=evaluation.machine.uuid,
        around=(str(program), "--tool", tool, "--print-limit", "20"),
        tool_paths=tuple(
            path for path in (home, home.parent / "compute-sanitizer", home.parent.parent) if path.exists()
        ),
    )
    return read_run(sandbox.run(artifact.path, direction.value, values, CALLS[tool]))


def read_run(seen: Observation) -> SanitizerReport:
    """Return a run's report, unfinished if the call failed."""
    # A candidate prints to the same stream: it could write a false summary, and then so much text that
    # the real one is cut off. Such a run exceeds the output limit and fails.
    report = read_sanitizer(seen.output)
    return report if seen.failure is None else replace(report, errors=None)
