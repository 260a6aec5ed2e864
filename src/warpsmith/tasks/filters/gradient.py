"""Does a gradient flow to every argument it should flow to: it exists, is finite, and is not zero everywhere."""

import torch
from torch import Tensor

from warpsmith.records import Direction
from warpsmith.tasks.filters.numbers import largest
from warpsmith.tasks.filters.outputs import least
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense, Skip
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.reference import TwoSided, gradient_names, gradients, upstream


def gradient(subject: FilteredProgram, base: Sample) -> FilterResult | Skip:
    """The largest magnitude of the gradient of each argument that backward returns one for."""
    wanted = subject.program.task.backward
    if wanted is None:
        return Skip(filter=Filter.GRADIENTS, reason="the task has no backward direction")
    if not subject.clock.allows(3):
        reason = f"one forward call takes {subject.clock.forward_s:.1f} s; there is no time for a backward one"
        return Skip(filter=Filter.GRADIENTS, reason=reason)
    try:
        found = _sizes(subject, base)
    except RuntimeError as error:
        return _refused(str(error))
    measures = [measure for measure in found if measure.what in wanted.results]
    if not measures:
        return Skip(filter=Filter.GRADIENTS, reason="no argument is floating and differentiable")
    sentence = f"the largest magnitude of {{what}} is {{value:.3g}} in {base.where}"
    return least(Filter.GRADIENTS, measures, 0.0, sentence, Sense.ABOVE)


def _sizes(subject: FilteredProgram, base: Sample) -> list[Measure]:
    """Of every gradient that autograd can give, of the file that backward was written in."""
    program, arguments, outputs = subject.program, base.arguments, base.outputs
    if isinstance(program, TwoSided):
        program = program.side(Direction.BACKWARD)
        arguments = program.arguments(base.trial)
        with torch.no_grad():
            outputs = program.forward(arguments)
    signature = program.task.forward
    found = gradients(program.forward, signature, arguments, upstream(outputs, base.trial.seed))
    names = gradient_names(signature, arguments)
    return [Measure(what=name, value=_size(grad)) for name, grad in zip(names, found, strict=True)]


def _size(grad: Tensor) -> float:
    return largest(grad) if bool(torch.isfinite(grad).all()) else float("nan")


def _refused(message: str) -> FilterResult:
    first = message.strip().splitlines()[0]
    return FilterResult(
        filter=Filter.GRADIENTS,
        passed=False,
        value=float("nan"),
        threshold=0.0,
        sense=Sense.ABOVE,
        detail=f"autograd refuses the task: {first}",
    )
