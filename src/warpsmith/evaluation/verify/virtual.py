"""One checked call on the virtual GPU."""

from math import inf, isfinite

from warpsmith.evaluation.check import CheckSubject, PlannedCall, check
from warpsmith.machines.virtual import Description, VirtualMachine
from warpsmith.machines.worker import Session
from warpsmith.records import StageResult, Trial, VirtualFacts

STAGE = "virtual"


def run_virtual(subject: CheckSubject, trial: Trial, session: Session, gpu: Description) -> StageResult:
    """Check one call; return its result with counters."""
    found = check(subject, (PlannedCall(trial),), session, VirtualMachine.limits)
    passed, failed = found.seen[0] if found.seen else None, found.failed
    worst = passed.worst if passed else failed.worst if failed else inf
    seen, case = passed.facts if passed else found.failed_facts, trial.case.name
    facts = seen.record(gpu, case) if seen else VirtualFacts(case=case)  # an executor that ended tells nothing
    update = {
        "stage": STAGE,
        "detail": failed.detail if failed else "",  # without the case, which the facts name
        "facts": facts.model_copy(update={"worst_error": worst if isfinite(worst) else None}),
    }
    return found.result.model_copy(update=update)
