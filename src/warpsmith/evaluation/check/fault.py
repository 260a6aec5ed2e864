"""The checks of one call in a fixed order: the first failure decides. Runs no candidate code."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from torch import Tensor

from warpsmith.evaluation.check.compare import Budget, Comparison, compare
from warpsmith.evaluation.check.precision import narrower_format
from warpsmith.evaluation.check.terms import has_equal_terms, normal_norm_limit, offset_ratio, slice_rule
from warpsmith.machines.worker import Shown
from warpsmith.records import Direction, Failure, Finding, Reason, Severity, Task, Trial
from warpsmith.tasks.reference import Problem

# A finding says more than the error that the candidate's host code saw because of it.
EXPLAINED = (Reason.FINDINGS, Reason.LAUNCH_ERROR, Reason.CANDIDATE_ERROR, Reason.DEVICE_TRAP)


def check_call(shown: Shown, problem: Problem, task: Task, direction: Direction, trial: Trial) -> Comparison:
    """Return a call's first failure and its largest error ratio.

    The order is: reported failure, form, memory, findings, values.
    """
    names = task.signature(direction).results
    arguments = [argument.name for argument in task.signature(direction).arguments]
    failure = (
        reported_failure(shown)
        or find_form_failure(shown.results, problem.native, names)
        or find_memory_failure(shown, names, arguments)
        or find_checker_failure(shown)
    )
    if failure is not None:
        return Comparison(failure, inf)
    budget = Budget.of(
        task.tolerance.of(direction),
        trial.case,
        has_equal_terms(task, trial),
        offset_ratio(trial),
        normal_norm_limit(task, direction, trial),
        slice_rule(task, direction, trial),
    )
    compared = compare(shown.results, problem, names, budget, shown.poison)
    return replace(compared, failure=find_value_failure(compared, shown.results, problem, task))


def reported_failure(shown: Shown) -> Failure | None:
    """Return the failure that the session reported, or None.

    A finding of the checker replaces the failure that it explains.
    """
    failure, errors = shown.failure, error_findings(shown)
    if failure is None:
        return None
    if errors and failure.reason in EXPLAINED:
        return Failure(Reason.FINDINGS, describe_findings(errors))
    return failure


def find_form_failure(results: Sequence[Tensor], native: Sequence[Tensor], names: Sequence[str]) -> Failure | None:
    """Return a wrong count, shape, type or layout, or None."""
    if len(results) != len(native):
        detail = f"returned {len(results)} tensors; the task has {len(native)}: {', '.join(names)}"
        return Failure(Reason.BAD_ANSWER, detail)
    for reason, one in ((Reason.WRONG_SHAPE, _shape), (Reason.WRONG_DTYPE, _dtype), (Reason.WRONG_LAYOUT, _layout)):
        for name, found, like in zip(names, results, native, strict=True):
            if detail := one(found, like):
                return Failure(reason, f"{name} {detail}")
    return None


def find_memory_failure(shown: Shown, names: Sequence[str], arguments: Sequence[str]) -> Failure | None:
    """Return a failure of memory use, or None.

    A changed argument, an aliased, late or unwritten result, or a written guard zone.
    """
    if shown.changed:
        return _failed_result(Reason.INPUT_CHANGED, "the call changed its argument {}", arguments, shown.changed)
    if shown.aliased:
        return _failed_result(
            Reason.ALIASED, "{} lies in the memory of an argument or of another result", names, shown.aliased
        )
    if not shown.settled:
        detail = (
            "the results changed after the call was over on its stream: work that nobody waits for was still to run"
        )
        return Failure(Reason.LATE_WRITE, detail)
    if shown.unwritten:
        return _failed_result(
            Reason.UNWRITTEN, "{} holds memory that nobody wrote in this call", names, shown.unwritten
        )
    if shown.overrun:
        return Failure(Reason.OVERRUN, "a guard zone beside a buffer was written")
    return None


def find_checker_failure(shown: Shown) -> Failure | None:
    """Return the virtual GPU's findings as a failure, or None."""
    errors = error_findings(shown)
    return Failure(Reason.FINDINGS, describe_findings(errors)) if errors else None


def find_value_failure(compared: Comparison, results: Sequence[Tensor], problem: Problem, task: Task) -> Failure | None:
    """Return the comparison's failure, or None.

    The reason is `precision` if the error has the size of a narrower format.
    """
    failure = compared.failure
    if failure is None:
        return None
    narrower = None if task.precision.tf32 else narrower_format(results, problem)
    if failure.reason is Reason.WRONG_VALUE and narrower is not None:
        return Failure(Reason.PRECISION, f"{failure.detail}; the error has the size of {narrower}")
    return failure


def error_findings(shown: Shown) -> list[Finding]:
    """Return the findings of the virtual GPU that are errors."""
    found = [raw.finding() for raw in shown.facts.findings] if shown.facts else []
    return [finding for finding in found if finding.severity is Severity.ERROR]


def describe_findings(findings: Sequence[Finding]) -> str:
    """Return the first finding and their number as a sentence."""
    first = findings[0]
    place = f"{first.place.file}:{first.place.line}: " if first.place else ""
    more = f" ({len(findings)} findings)" if len(findings) > 1 else ""
    return f"{place}{first.checker}: {first.message}{more}"


def _failed_result(reason: Reason, text: str, names: Sequence[str], positions: Sequence[int]) -> Failure:
    """Return a failure whose text names the tensors at these positions."""
    shown = ", ".join(names[place] if place < len(names) else str(place) for place in positions)
    return Failure(reason, text.format(shown))


def _shape(found: Tensor, like: Tensor) -> str:
    """Return the error in a shape, else empty text."""
    return "" if found.shape == like.shape else f"has shape {tuple(found.shape)}; expected {tuple(like.shape)}"


def _dtype(found: Tensor, like: Tensor) -> str:
    """Return the error in an element type, else empty text."""
    return "" if found.dtype == like.dtype else f"is {_name(found)}; expected {_name(like)}"


def _layout(found: Tensor, like: Tensor) -> str:
    """Return the error in the strides, else empty text.

    Contiguous tensors and the strides of torch's own result are right.
    """
    if found.is_contiguous() or _strides(found) == _strides(like):
        return ""
    return f"has strides {tuple(found.stride())}; expected {tuple(like.stride())} or a contiguous tensor"


def _strides(tensor: Tensor) -> list[int]:
    """Return the strides of axes longer than one."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _name(tensor: Tensor) -> str:
    """Return the name of a tensor's element type."""
    return str(tensor.dtype).removeprefix("torch.")
