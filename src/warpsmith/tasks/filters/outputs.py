"""What the outputs look like: their range, their deviation, their variation along each axis."""

from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.tasks.filters.numbers import largest, ratio, rms, thinned
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import DEVIATION, RANGE, VARIATION


def least(
    filter_: Filter, measures: Sequence[Measure], threshold: float, sentence: str, sense: Sense = Sense.AT_LEAST
) -> FilterResult:
    """The answer that the smallest of the measures gives; NaN is never enough. `sentence` has {what} and {value}."""
    worst = min(measures, key=lambda measure: measure.value if measure.value == measure.value else float("-inf"))
    passed = worst.value > threshold if sense is Sense.ABOVE else worst.value >= threshold
    return FilterResult(
        filter=filter_,
        passed=passed,
        value=worst.value,
        threshold=threshold,
        sense=sense,
        detail=sentence.format(what=worst.what, value=worst.value),
        measures=tuple(measures),
    )


def output_range(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult:
    """The largest magnitude of each output in each draw; NaN or infinity fails."""
    measures = [
        Measure(what=f"{subject.result_name(place)} in {sample.where}", value=_reach(output))
        for sample in samples
        for place, output in enumerate(sample.outputs)
    ]
    return least(Filter.OUTPUT_RANGE, measures, RANGE, "the largest magnitude of {what} is {value:.3g}")


def output_deviation(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult:
    """The deviation of each output over everything, relative to its size; of one number, over the draws."""
    measures = [
        Measure(what=f"{subject.result_name(place)} in {sample.where}", value=_spread(output))
        for sample in samples
        for place, output in enumerate(sample.outputs)
        if output.numel() > 1
    ]
    for place, output in enumerate(samples[0].outputs):
        if output.numel() == 1:
            drawn = torch.cat([s.outputs[place].double().reshape(1) for s in samples])
            name = f"{subject.result_name(place)} over {len(samples)} draws"
            measures.append(Measure(what=name, value=_spread(drawn)))
    sentence = "the standard deviation of {what} is {value:.3g} of its root mean square"
    return least(Filter.OUTPUT_DEVIATION, measures, DEVIATION, sentence)


def axis_variation(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult | None:
    """The deviation along each axis longer than one; nothing when there is no such axis."""
    measures = [
        Measure(
            what=f"axis {axis} (size {output.shape[axis]}) of {subject.result_name(place)} in {sample.where}", value=v
        )
        for sample in samples
        for place, output in enumerate(sample.outputs)
        for axis, v in _along(output)
    ]
    if not measures:
        return None
    sentence = "the standard deviation along {what} is {value:.3g} of the output's root mean square"
    return least(Filter.AXIS_VARIATION, measures, VARIATION, sentence)


def _reach(output: Tensor) -> float:
    return largest(thinned(output)) if bool(output.isfinite().all()) else float("nan")


def _spread(output: Tensor) -> float:
    values = thinned(output)
    return ratio(float(values.std(correction=0)), rms(values))


def _along(output: Tensor) -> list[tuple[int, float]]:
    values = thinned(output)
    size = rms(values)
    axes = [axis for axis, length in enumerate(values.shape) if length > 1]
    return [(axis, ratio(rms(values.std(axis, correction=0)), size)) for axis in axes]
