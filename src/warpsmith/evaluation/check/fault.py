"""What one call showed, looked at in a fixed order: the first failure decides. Runs no candidate code."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from torch import Tensor

from warpsmith.evaluation.check.compare import Budget, Comparison, compare
from warpsmith.evaluation.check.precision import resembles
from warpsmith.evaluation.check.terms import easy, equal_terms, lift, slice_rule
from warpsmith.machines.worker import Shown
from warpsmith.records import Direction, Failure, Finding, Reason, Severity, Task, Trial
from warpsmith.tasks.reference import Problem

# A finding says more than the error that the candidate's host code saw because of it.
EXPLAINED = (Reason.FINDINGS, Reason.LAUNCH_ERROR, Reason.CANDIDATE_ERROR, Reason.DEVICE_TRAP)


def look(shown: Shown, problem: Problem, task: Task, direction: Direction, trial: Trial) -> Comparison:
    """The first fault of a call: failure, form, memory, findings, values."""
    names = task.signature(direction).results
    arguments = [argument.name for argument in task.signature(direction).arguments]
    failure = (
        of_failure(shown)
        or of_form(shown.results, problem.native, names)
        or of_memory(shown, names, arguments)
        or of_findings(shown)
    )
    if failure is not None:
        return Comparison(failure, inf)
    budget = Budget.of(
        task.tolerance.of(direction),
        trial.case,
        equal_terms(task, trial),
        lift(trial),
        easy(task, direction, trial),
        slice_rule(task, direction, trial),
    )
    compared = compare(shown.results, problem, names, budget, shown.poison)
    return replace(compared, failure=of_values(compared, shown.results, problem, task))


def of_failure(shown: Shown) -> Failure | None:
    """Why there is no result; a finding is told instead where it is the cause."""
    failure, errors = shown.failure, findings_of(shown)
    if failure is None:
        return None
    if errors and failure.reason in EXPLAINED:
        return Failure(Reason.FINDINGS, sentence(errors))
    return failure


def of_form(results: Sequence[Tensor], native: Sequence[Tensor], names: Sequence[str]) -> Failure | None:
    """Count, shapes, element types and layouts, exactly."""
    if len(results) != len(native):
        detail = f"returned {len(results)} tensors; the task has {len(native)}: {', '.join(names)}"
        return Failure(Reason.BAD_ANSWER, detail)
    for reason, one in ((Reason.WRONG_SHAPE, _shape), (Reason.WRONG_DTYPE, _dtype), (Reason.WRONG_LAYOUT, _layout)):
        for name, found, like in zip(names, results, native, strict=True):
            if detail := one(found, like):
                return Failure(reason, f"{name} {detail}")
    return None


def of_memory(shown: Shown, names: Sequence[str], arguments: Sequence[str]) -> Failure | None:
    """What the call did to memory that is not its own, and what it left undone in its own."""
    if shown.changed:
        return _failed(Reason.INPUT_CHANGED, "the call changed its argument {}", arguments, shown.changed)
    if shown.aliased:
        return _failed(
            Reason.ALIASED, "{} lies in the memory of an argument or of another result", names, shown.aliased
        )
    if not shown.settled:
        detail = (
            "the results changed after the call was over on its stream: work that nobody waits for was still to run"
        )
        return Failure(Reason.LATE_WRITE, detail)
    if shown.unwritten:
        return _failed(Reason.UNWRITTEN, "{} holds memory that nobody wrote in this call", names, shown.unwritten)
    if shown.overrun:
        return Failure(Reason.OVERRUN, "a guard zone beside a buffer was written")
    return None


def of_findings(shown: Shown) -> Failure | None:
    """What the virtual GPU found though the results came."""
    errors = findings_of(shown)
    return Failure(Reason.FINDINGS, sentence(errors)) if errors else None


def of_values(compared: Comparison, results: Sequence[Tensor], problem: Problem, task: Task) -> Failure | None:
    """The comparison's reason; an error of the size that a narrower format makes is told as that."""
    failure = compared.failure
    if failure is None:
        return None
    narrower = None if task.precision.tf32 else resembles(results, problem)
    if failure.reason is Reason.WRONG_VALUE and narrower is not None:
        return Failure(Reason.PRECISION, f"{failure.detail}; the error has the size of {narrower}")
    return failure


def findings_of(shown: Shown) -> list[Finding]:
    """The errors that the virtual GPU found."""
    found = [raw.finding() for raw in shown.facts.findings] if shown.facts else []
    return [finding for finding in found if finding.severity is Severity.ERROR]


def sentence(findings: Sequence[Finding]) -> str:
    """The first finding with its place, and how many there are."""
    first = findings[0]
    place = f"{first.place.file}:{first.place.line}: " if first.place else ""
    more = f" ({len(findings)} findings)" if len(findings) > 1 else ""
    return f"{place}{first.checker}: {first.message}{more}"


def _failed(reason: Reason, text: str, names: Sequence[str], positions: Sequence[int]) -> Failure:
    shown = ", ".join(names[place] if place < len(names) else str(place) for place in positions)
    return Failure(reason, text.format(shown))


def _shape(found: Tensor, like: Tensor) -> str:
    return "" if found.shape == like.shape else f"has shape {tuple(found.shape)}; expected {tuple(like.shape)}"


def _dtype(found: Tensor, like: Tensor) -> str:
    return "" if found.dtype == like.dtype else f"is {_name(found)}; expected {_name(like)}"


def _layout(found: Tensor, like: Tensor) -> str:
    """Dense in row order, or as torch's own result lies; the stride of an axis of one element means nothing."""
    if found.is_contiguous() or _strides(found) == _strides(like):
        return ""
    return f"has strides {tuple(found.stride())}; expected {tuple(like.stride())} or a contiguous tensor"


def _strides(tensor: Tensor) -> list[int]:
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
