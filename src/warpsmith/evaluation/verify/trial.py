"""The virtual GPU as a verifier: the calls that a seed stands for, on smoke cases and small held-out shapes."""

from pathlib import Path

from warpsmith.evaluation.check import VIRTUAL_WORK, Scope, plan, usual_groups
from warpsmith.machines.virtual import Description
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Candidate, CompileFacts, Language, Reason, StageResult, Verdict
from warpsmith.tasks.host.opened import OpenTask

STAGE = "virtual"
LACKING = (Reason.UNKNOWN_CALL, Reason.INSTRUCTION_BUDGET, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT)


def try_virtually(
    candidate: Candidate, opened: OpenTask, artifact: Path, seed: int, modelled: Description
) -> StageResult:
    """PASS, what is wrong, or SKIP where the virtual GPU lacks something."""
    from warpsmith.evaluation.check.run import Subject, check

    task, direction = opened.describe(), candidate.direction
    steps = plan(task, direction, Scope(groups=usual_groups(task), heldout_work=VIRTUAL_WORK), seed)
    subject = Subject(task, direction, opened.problem, candidate.language is Language.PLAIN)
    with VirtualSession(artifact, direction.value, task.signature(direction), modelled) as session:
        checked = check(subject, steps, session)
    return unless_lacking(checked.result.model_copy(update={"stage": STAGE}))


def unfit(modelled: Description, made: CompileFacts) -> StageResult | None:
    """The SKIP of a candidate that the virtual GPU can say nothing of; None where it can."""
    if made.arch.removeprefix("sm_").rstrip("af")[:-1] != str(modelled.capability[0]):
        why = f"The virtual {modelled.name} cannot stand for a GPU of architecture {made.arch}."
    elif made.libraries:
        why = f"It calls {', '.join(made.libraries)}, which the virtual GPU does not run."
    else:
        return None
    return StageResult(stage=STAGE, verdict=Verdict.SKIP, detail=why)


def unless_lacking(result: StageResult) -> StageResult:
    """The result, or none where it says more of the virtual GPU than of the candidate: a real one settles it."""
    if result.verdict is Verdict.FAIL and result.reason in LACKING:
        return result.model_copy(update={"verdict": Verdict.SKIP})
    return result
