"""The virtual GPU as a verifier: the calls that a seed stands for, on smoke cases and small held-out shapes."""

from dataclasses import dataclass
from pathlib import Path

from warpsmith.check import Scope, plan
from warpsmith.records import Candidate, Group, Language, Reason, StageResult, Task, Verdict
from warpsmith.sandbox.virtual_session import VirtualSession
from warpsmith.tasks.opened import OpenTask
from warpsmith.vgpu import describe

STAGE = "virtual"
LACKING = (Reason.UNKNOWN_CALL, Reason.INSTRUCTION_BUDGET, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT)


@dataclass(frozen=True)
class Ground:
    """Where a candidate is tried: the modelled GPU, the largest held-out work, the longest call."""

    gpu: str = "H200"
    heldout_work: float = 4e6  # floating-point operations: about half a second
    call_s: float = 60.0


def try_virtually(
    candidate: Candidate, opened: OpenTask, artifact: Path, seed: int, ground: Ground | None = None
) -> StageResult:
    """PASS, what is wrong, or SKIP where the virtual GPU lacks something."""
    from warpsmith.check.run import Subject, check

    ground, task = ground or Ground(), opened.describe()
    direction, plain = candidate.direction, candidate.language is Language.PLAIN
    steps = plan(task, direction, Scope(groups=_groups(task), heldout_work=ground.heldout_work), seed)
    signature = task.signature(direction)
    with VirtualSession(artifact, direction.value, signature, describe(ground.gpu), call_s=ground.call_s) as session:
        checked = check(Subject(task, direction, opened.problem, plain), steps, session)
    return unless_lacking(checked.result.model_copy(update={"stage": STAGE}))


def _groups(task: Task) -> tuple[Group, ...]:
    """The small cases; a task without them is tried on whatever it has."""
    return (Group.SMOKE if task.group(Group.SMOKE) else task.cases[0].group, Group.HELDOUT)


def unless_lacking(result: StageResult) -> StageResult:
    """The result, or none where it says more of the virtual GPU than of the candidate: a real one settles it."""
    if result.verdict is Verdict.FAIL and result.reason in LACKING:
        return result.model_copy(update={"verdict": Verdict.SKIP})
    return result
