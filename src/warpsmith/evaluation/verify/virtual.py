"""The virtual stage: one call of a candidate on the virtual GPU, judged as the check does, with its counters."""

import time

from warpsmith.evaluation.check import CheckSubject, look
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
    looked = look(shown, problem, subject.task, subject.direction, trial)
    fault = looked.fault
    return StageResult(
        stage=STAGE,
        verdict=fault.verdict if fault else Verdict.PASS,
        reason=fault.reason if fault else None,
        detail=fault.detail if fault else "",
        facts=facts_of(shown, gpu, trial.case.name, looked.worst),
        seconds=time.perf_counter() - started,
    )


def facts_of(shown: Shown, gpu: Description, case: str, worst: float | None) -> VirtualFacts:
    """The stage's facts; of a candidate whose executor ended nothing is known."""
    facts = shown.facts.record(gpu, case) if shown.facts else VirtualFacts(case=case)
    return facts.model_copy(update={"worst_error": worst})
