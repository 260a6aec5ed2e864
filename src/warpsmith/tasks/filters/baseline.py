"""Would a kernel that ignores its inputs, or copies one, be called right? Then the task is broken."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from warpsmith.records import Direction, Origin, Tolerance
from warpsmith.tasks.filters.numbers import norm, ratio, thinned
from warpsmith.tasks.filters.outputs import least
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense
from warpsmith.tasks.filters.subject import REFUSALS, FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import LOOSE
from warpsmith.tasks.inputs import tensors, widened

BENCHMARKS = (Origin.KERNELBENCH, Origin.ROBUST_KBENCH)  # written for a comparison that is kinder than ours


def constant_baseline(subject: FilteredProgram, base: Sample, other: Sample) -> FilterResult:
    """The error of each lazy answer over what is allowed; at one or below it passes for right.

    Constants come from `other`, a draw that a lazy kernel could have seen, and are held against `base`.
    """
    own = _own_errors(subject, base)
    borrowed = subject.program.task.origin in BENCHMARKS
    measures: list[Measure] = []
    for place, output in enumerate(base.outputs):
        truth = thinned(output)
        bound = _bound(subject.program.task.tolerance.of(Direction.FORWARD), output, truth, own[place])
        for name, guess in _guesses(subject, base, other, place):
            what = f"{name} for {subject.result_name(place)} in {base.where}"
            errors = [ratio(norm(guess - truth), bound), *([_loose(guess, truth)] if borrowed else [])]
            measures.append(Measure(what=what, value=_kindest(errors)))
    allowed = f"its own benchmark allows ({LOOSE} absolute and relative)" if borrowed else "the task's tolerance allows"
    sentence = f"answering {{what}} has {{value:.3g}} times the error that {allowed}"
    return least(Filter.CONSTANT_BASELINE, measures, 1.0, sentence, Sense.ABOVE)


def _guesses(subject: FilteredProgram, base: Sample, other: Sample, place: int) -> Iterator[tuple[str, Tensor]]:
    """Lazy answers with their names, thinned like the truth."""
    output = base.outputs[place]
    shape = thinned(output).shape
    yield "zeros", torch.zeros(shape, dtype=torch.float64)
    if other.outputs[place].shape == output.shape:
        seen = thinned(other.outputs[place])
        yield "another draw's output", seen
        yield "the mean of another draw", seen.mean().expand(shape)
        for axis in range(seen.ndim if seen.ndim > 1 else 0):
            yield f"another draw's mean along axis {axis}", seen.mean(axis, keepdim=True).expand(shape)
    for spec, value in zip(subject.signature.arguments, base.arguments, strict=True):
        for tensor in tensors((value,)):
            if tensor.shape == output.shape:
                yield f"'{spec.name}' itself", thinned(tensor)


def _loose(guess: Tensor, truth: Tensor) -> float:
    """The largest error over the loosest comparison in use."""
    wrong = (guess - truth).abs() / (LOOSE + LOOSE * truth.abs())
    return float(wrong.max()) if wrong.numel() else 0.0


def _kindest(errors: Sequence[float]) -> float:
    value = min(errors)
    return value if value == value else float("inf")  # NaN is for the range filter to say


def _bound(tolerance: Tolerance, output: Tensor, truth: Tensor, own_error: float) -> float:
    floors = {str(dtype): floor for dtype, floor in tolerance.norm_floor.items()}
    floor = floors.get(str(output.dtype).removeprefix("torch."), 0.0)
    return max(tolerance.norm_factor * own_error, floor * norm(truth))


def _own_errors(subject: FilteredProgram, base: Sample) -> Sequence[float]:
    """torch's own error of each output against float64; zero where the function cannot run in float64 or is slow."""
    if not subject.clock.allows(3):
        return [0.0] * len(base.outputs)
    try:
        wide = subject.call(widened(base.arguments))
    except REFUSALS:
        return [0.0] * len(base.outputs)
    return [norm(thinned(w) - thinned(o)) for w, o in zip(wide, base.outputs, strict=True)]
