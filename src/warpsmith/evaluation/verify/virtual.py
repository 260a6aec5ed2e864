"""The virtual stage: one call of a candidate on the virtual GPU, judged as the check does, with its counters."""

import time
from math import isfinite

from warpsmith.evaluation.check import CheckSubject, check_call
from warpsmith.languages import find_language
from warpsmith.machines.virtual import Description
from warpsmith.machines.worker import Session, Shown
from warpsmith.records import StageResult, Trial, Verdict, VirtualFacts

STAGE = "virtual"


def run_virtual(subject: CheckSubject, trial: Trial, session: Session, gpu: Description) -> StageResult:
    """PASS, or what is wrong; SKIP where the virtual GPU itself lacks an instruction."""
    problem, started = subject.solve(subject.direction, trial), time.perf_counter()
    given = find_language(subject.language).passed_results(problem.native)
    shown = session.call(problem.arguments, given=given)
    looked = check_call(shown, problem, subject.task, subject.direction, trial)
    failure = looked.failure
    return StageResult(
        stage=STAGE,
        verdict=failure.reason.verdict if failure else Verdict.PASS,
        reason=failure.reason if failure else None,
        detail=failure.detail if failure else "",
        facts=facts_of(shown, gpu, trial.case.name, looked.worst if isfinite(looked.worst) else None),
        seconds=time.perf_counter() - started,
    )


def facts_of(shown: Shown, gpu: Description, case: str, worst: float | None) -> VirtualFacts:
    """The stage's facts; of a candidate whose executor ended nothing is known."""
    facts = shown.facts.record(gpu, case) if shown.facts else VirtualFacts(case=case)
    return facts.model_copy(update={"worst_error": worst})
