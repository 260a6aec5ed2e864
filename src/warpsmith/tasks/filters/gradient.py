"""The check for missing, infinite or zero gradients."""

import torch
from torch import Tensor

from warpsmith.records import Direction
from warpsmith.tasks.filters.numbers import largest_magnitude
from warpsmith.tasks.filters.outputs import judge_smallest
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense, Skip
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.reference import TwoSided, gradient_names, gradients, upstream


def check_gradients(subject: FilteredProgram, base: Sample) -> FilterResult | Skip:
    """Measure each argument's largest gradient."""
    wanted = subject.program.task.backward
    if wanted is None:
        return Skip(filter=Filter.GRADIENTS, reason="the task has no backward direction")
    if not subject.clock.allows(3):
        reason = f"one forward call takes {subject.clock.forward_s:.1f} s; there is no time for a backward one"
        return Skip(filter=Filter.GRADIENTS, reason=reason)
    try:
        found = _gradient_sizes(subject, base)
    except RuntimeError as error:
        return _failed_result(str(error))
    measures = [measure for measure in found if measure.what in wanted.results]
    if not measures:
        return Skip(filter=Filter.GRADIENTS, reason="no argument is floating and differentiable")
    sentence = f"the largest magnitude of {{what}} is {{value:.3g}} in {base.description}"
    return judge_smallest(Filter.GRADIENTS, measures, 0.0, sentence, Sense.ABOVE)


def _gradient_sizes(subject: FilteredProgram, base: Sample) -> list[Measure]:
    """Measure every gradient that autograd, or the task's own backward, returns."""
    program, arguments, outputs = subject.program, base.arguments, base.outputs
    # A task with a backward file of its own has other arguments there.
    if isinstance(program, TwoSided):
        program = program.side(Direction.BACKWARD)
        arguments = program.arguments(base.trial)
        with torch.no_grad():
            outputs = program.forward(arguments)
    signature = program.task.forward
    found = gradients(program.forward, signature, arguments, upstream(outputs, base.trial.seed))
    names = gradient_names(signature, arguments)
    return [Measure(what=name, value=_magnitude(grad)) for name, grad in zip(names, found, strict=True)]


def _magnitude(grad: Tensor) -> float:
    """Return the largest magnitude, or nan if an element is not finite."""
    return largest_magnitude(grad) if bool(torch.isfinite(grad).all()) else float("nan")


def _failed_result(message: str) -> FilterResult:
    """Return a failed result with a message."""
    first = message.strip().splitlines()[0]
    return FilterResult(
        filter=Filter.GRADIENTS,
        passed=False,
        value=float("nan"),
        threshold=0.0,
        sense=Sense.ABOVE,
        detail=f"autograd refuses the task: {first}",
    )
