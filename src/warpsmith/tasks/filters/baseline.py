"""Detection of tasks with trivial answers."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from warpsmith.records import Direction, Origin, Tolerance
from warpsmith.tasks.filters.numbers import norm, ratio, thin
from warpsmith.tasks.filters.outputs import judge_smallest
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense
from warpsmith.tasks.filters.subject import REFUSALS, FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import LOOSE
from warpsmith.tasks.inputs import tensors, widened

BENCHMARKS = (Origin.KERNELBENCH, Origin.ROBUST_KBENCH)  # written for a comparison that is kinder than ours


def check_trivial_answers(subject: FilteredProgram, base: Sample, other: Sample) -> FilterResult:
    """Measure the error of each trivial answer divided by its bound; at 1 or below it would pass.

    Constants come from `other`, a sample that a cheating kernel could have observed, and are compared with `base`.
    """
    own = _torch_errors(subject, base)
    # Benchmarks accept more than our tolerance, so a trivial answer may pass there and not here.
    borrowed = subject.program.task.origin in BENCHMARKS
    measures: list[Measure] = []
    for place, output in enumerate(base.outputs):
        truth = thin(output)
        bound = _error_bound(subject.program.task.tolerance.of(Direction.FORWARD), output, truth, own[place])
        for name, guess in _trivial_answers(subject, base, other, place):
            what = f"{name} for {subject.result_name(place)} in {base.description}"
            # The kinder of both bounds counts.
            errors = [ratio(norm(guess - truth), bound), *([_loosest_error(guess, truth)] if borrowed else [])]
            measures.append(Measure(what=what, value=_smallest_finite(errors)))
    allowed = f"its own benchmark allows ({LOOSE} absolute and relative)" if borrowed else "the task's tolerance allows"
    sentence = f"answering {{what}} has {{value:.3g}} times the error that {allowed}"
    return judge_smallest(Filter.CONSTANT_BASELINE, measures, 1.0, sentence, Sense.ABOVE)


def _trivial_answers(subject: FilteredProgram, base: Sample, other: Sample, place: int) -> Iterator[tuple[str, Tensor]]:
    """Yield trivial answers with their names, thinned like the expected result."""
    output = base.outputs[place]
    shape = thin(output).shape
    yield "zeros", torch.zeros(shape, dtype=torch.float64)
    if other.outputs[place].shape == output.shape:
        seen = thin(other.outputs[place])
        yield "another draw's output", seen
        yield "the mean of another draw", seen.mean().expand(shape)
        for axis in range(seen.ndim if seen.ndim > 1 else 0):
            yield f"another draw's mean along axis {axis}", seen.mean(axis, keepdim=True).expand(shape)
    for spec, value in zip(subject.signature.arguments, base.arguments, strict=True):
        for tensor in tensors((value,)):
            if tensor.shape == output.shape:
                yield f"'{spec.name}' itself", thin(tensor)


def _loosest_error(guess: Tensor, truth: Tensor) -> float:
    """Return the largest error divided by the loosest bound in use."""
    wrong = (guess - truth).abs() / (LOOSE + LOOSE * truth.abs())
    return float(wrong.max()) if wrong.numel() else 0.0


def _smallest_finite(errors: Sequence[float]) -> float:
    """Return the smallest error; NaN counts as infinite."""
    value = min(errors)
    return value if value == value else float("inf")  # NaN is for the range filter to say


def _error_bound(tolerance: Tolerance, output: Tensor, truth: Tensor, own_error: float) -> float:
    """Return the largest allowed error of an output."""
    floors = {str(dtype): floor for dtype, floor in tolerance.norm_floor.items()}
    floor = floors.get(str(output.dtype).removeprefix("torch."), 0.0)
    # As in the check: torch's own error, or a share of the reference's norm.
    return max(tolerance.norm_factor * own_error, floor * norm(truth))


def _torch_errors(subject: FilteredProgram, base: Sample) -> Sequence[float]:
    """Return torch's error of each output against float64.

    The error is 0 if the function is slow or cannot run in float64.
    """
    if not subject.clock.allows(3):
        return [0.0] * len(base.outputs)
    try:
        wide = subject.call(widened(base.arguments))
    except REFUSALS:
        return [0.0] * len(base.outputs)
    return [norm(thin(w) - thin(o)) for w, o in zip(wide, base.outputs, strict=True)]
