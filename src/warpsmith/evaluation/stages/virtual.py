"""The stages on the virtual GPU: check and modelled times."""

from typing import TYPE_CHECKING

from warpsmith.evaluation.check import PlannedCall, PlanScope, groups_with_cases, plan_steps
from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, LaunchCount, PassedCalls, StageOutcome
from warpsmith.evaluation.stages.modelled import modelled
from warpsmith.evaluation.stages.sketch import sketch_steps, sketched
from warpsmith.machines import Machine
from warpsmith.machines.virtual import VirtualMachine, describe
from warpsmith.records import CompileFacts, Reason, StageResult, Verdict

if TYPE_CHECKING:
    from warpsmith.evaluation.check import Checked

PREVIEW = "virtual"
# Reasons that say more about the virtual GPU than about the candidate: a real GPU settles them.
LACKING = (Reason.UNKNOWN_CALL, Reason.INSTRUCTION_BUDGET, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT)


def plan_calls(evaluation: Evaluation, machine: Machine, is_brief: bool = False) -> tuple[PlannedCall, ...]:
    """Return the calls of an evaluation's seed on a machine."""
    # The options `cases` and `effort` are meant for the machine of the evaluation. The preview on the
    # virtual GPU before a real one has its own groups and is brief.
    task, direction, config = evaluation.task, evaluation.candidate.direction, evaluation.config
    limits, is_own = machine.limits, machine.kind == config.device
    effort = config.effort if is_own and machine.kind == VirtualMachine.kind else "usual"
    groups = (config.cases if is_own else ()) or groups_with_cases(task, limits.groups)
    scope = PlanScope(
        groups=groups,
        heldout_work=limits.heldout_work,
        light=limits.light_work,
        scheme=config.scheme,
        brief=is_brief,
    )
    whole = () if effort == "sketch" else plan_steps(task, direction, scope, evaluation.seed)
    few = () if effort == "usual" else sketch_steps(task, direction, evaluation.seed, config.scheme)
    return (*whole, *few)


def check_virtually(evaluation: Evaluation, artifact: Artifact) -> StageOutcome:
    """Check the planned calls on the virtual GPU."""
    found = _check(evaluation, artifact, VirtualMachine.of(evaluation.config.gpu), is_brief=False)
    return StageOutcome(found.result, (PassedCalls(found.seen),))


def preview_virtually(evaluation: Evaluation, artifact: Artifact) -> StageOutcome:
    """Check each case once before a real GPU."""
    # The virtual GPU finds races and out-of-bounds accesses that a real GPU may not show, and costs no
    # lease.
    return _preview(evaluation, artifact, is_brief=True)


def screen_virtually(evaluation: Evaluation, artifact: Artifact) -> StageOutcome:
    """Check all planned calls, as a verifier."""
    return _preview(evaluation, artifact, is_brief=False)


def _preview(evaluation: Evaluation, artifact: Artifact, is_brief: bool) -> StageOutcome:
    """Run a preview; return its result and launch count."""
    machine = VirtualMachine.of(evaluation.config.gpu)
    if skipped := unfit(machine, evaluation.record.compiled or CompileFacts()):
        return StageOutcome(skipped)
    found = _check(evaluation, artifact, machine, is_brief)
    result = unless_lacking(found.result.model_copy(update={"stage": PREVIEW}))
    counted = [sum(row.launches for row in call.facts.kernels) for call in found.seen if call.facts]
    return StageOutcome(result, (LaunchCount(max(counted)),) if counted else ())


def _check(evaluation: Evaluation, artifact: Artifact, machine: VirtualMachine, is_brief: bool) -> "Checked":
    """Check an artifact on the virtual GPU."""
    from warpsmith.evaluation.check import CheckSubject, check

    direction = evaluation.candidate.direction
    subject = CheckSubject(evaluation.task, direction, evaluation.opened.problem, evaluation.candidate.language)
    steps = plan_calls(evaluation, machine, is_brief)
    with machine.session(artifact.path, direction, evaluation.signature, evaluation.config.call_s) as session:
        return check(subject, steps, session, machine.limits)


def unfit(machine: VirtualMachine, made: CompileFacts) -> StageResult | None:
    """Return a SKIP for an artifact that cannot run here, or None."""
    if made.arch.removeprefix("sm_").rstrip("af")[:-1] != str(machine.gpu.capability[0]):
        why = f"The virtual {machine.gpu.name} cannot stand for a GPU of architecture {made.arch}."
    elif made.libraries:
        why = f"It calls {', '.join(made.libraries)}, which the virtual GPU does not run."
    else:
        return None
    return StageResult(stage=PREVIEW, verdict=Verdict.SKIP, detail=why)


def unless_lacking(result: StageResult) -> StageResult:
    """Return the result, a SKIP if the virtual GPU lacks something."""
    # A budget or a limit of the virtual GPU says nothing about the kernel on a real one.
    if result.verdict is Verdict.FAIL and result.reason in LACKING:
        return result.model_copy(update={"verdict": Verdict.SKIP})
    return result


def model_times(evaluation: Evaluation, passed: PassedCalls) -> StageOutcome:
    """Return the modelled times of calls that passed."""
    model = modelled if evaluation.config.effort == "usual" else sketched
    gpu = describe(evaluation.config.gpu)
    return StageOutcome(model(evaluation.task, evaluation.candidate.direction, passed.calls, gpu))
