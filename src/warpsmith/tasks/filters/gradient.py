"""Does a gradient flow to every argument it should flow to: it exists, is finite, and is not zero everywhere."""

import torch
from torch import Tensor

from warpsmith.tasks.filters.impact import Target, targets
from warpsmith.tasks.filters.numbers import largest
from warpsmith.tasks.filters.outputs import least
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense, Skip
from warpsmith.tasks.filters.subject import Sample, Subject
from warpsmith.tasks.program import DIFFERENTIABLE, gradients, upstream


def gradient(subject: Subject, base: Sample) -> FilterResult | Skip:
    """The largest magnitude of the gradient of each differentiable argument."""
    if subject.program.task.backward is None:
        return Skip(filter=Filter.GRADIENTS, reason="the task has no backward direction")
    if not subject.clock.allows(3):
        reason = f"one forward call takes {subject.clock.forward_s:.1f} s; there is no time for a backward one"
        return Skip(filter=Filter.GRADIENTS, reason=reason)
    flowing = [t for t in targets(subject, base.arguments) if _flows(t, base)]
    if not flowing:
        return Skip(filter=Filter.GRADIENTS, reason="no argument is floating and differentiable")
    try:
        found = gradients(
            subject.program.forward, subject.signature, base.arguments, upstream(base.outputs, base.trial.seed)
        )
    except RuntimeError as error:
        return _refused(str(error))
    measures = [Measure(what=f"'{t.name}'", value=_size(grad)) for t, grad in zip(flowing, found, strict=True)]
    sentence = f"the largest magnitude of the gradient of {{what}} is {{value:.3g}} in {base.where}"
    return least(Filter.GRADIENTS, measures, 0.0, sentence, Sense.ABOVE)


def _flows(target: Target, base: Sample) -> bool:
    return target.role in DIFFERENTIABLE and target.get(base.arguments).is_floating_point()


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
