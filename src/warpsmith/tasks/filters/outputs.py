"""Range, deviation and variation of the outputs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.tasks.filters.numbers import largest_magnitude, ratio, rms, thin
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Sense
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import DEVIATION, RANGE, VARIATION


def judge_smallest(
    filter_: Filter, measures: Sequence[Measure], threshold: float, sentence: str, sense: Sense = Sense.AT_LEAST
) -> FilterResult:
    """Return the result of the smallest measure; NaN fails. `sentence` contains {what} and {value}."""
    # NaN compares with nothing, so it is ordered before every number and fails.
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


def check_output_range(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult:
    """Measure the largest magnitude of each output and sample; NaN or infinity fails."""
    measures = [
        Measure(what=f"{subject.result_name(place)} in {sample.description}", value=_finite_magnitude(output))
        for sample in samples
        for place, output in enumerate(sample.outputs)
    ]
    return judge_smallest(Filter.OUTPUT_RANGE, measures, RANGE, "the largest magnitude of {what} is {value:.3g}")


def check_output_deviation(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult:
    """Measure each output's standard deviation relative to its size; for a scalar, over the samples."""
    measures = [
        Measure(what=f"{subject.result_name(place)} in {sample.description}", value=_relative_deviation(output))
        for sample in samples
        for place, output in enumerate(sample.outputs)
        if output.numel() > 1
    ]
    # One number has no spread of its own; its spread over samples shows whether it depends on the inputs.
    for place, output in enumerate(samples[0].outputs):
        if output.numel() == 1:
            drawn = torch.cat([s.outputs[place].double().reshape(1) for s in samples])
            name = f"{subject.result_name(place)} over {len(samples)} draws"
            measures.append(Measure(what=name, value=_relative_deviation(drawn)))
    sentence = "the standard deviation of {what} is {value:.3g} of its root mean square"
    return judge_smallest(Filter.OUTPUT_DEVIATION, measures, DEVIATION, sentence)


def check_axis_variation(subject: FilteredProgram, samples: Sequence[Sample]) -> FilterResult | None:
    """Measure the deviation along each axis longer than 1, or return None if there is none."""
    measures = [
        Measure(
            what=f"axis {axis} (size {output.shape[axis]}) of {subject.result_name(place)} in {sample.description}",
            value=v,
        )
        for sample in samples
        for place, output in enumerate(sample.outputs)
        for axis, v in _axis_deviations(output)
    ]
    if not measures:
        return None
    sentence = "the standard deviation along {what} is {value:.3g} of the output's root mean square"
    return judge_smallest(Filter.AXIS_VARIATION, measures, VARIATION, sentence)


def _finite_magnitude(output: Tensor) -> float:
    """Return the largest magnitude, or nan."""
    return largest_magnitude(thin(output)) if bool(output.isfinite().all()) else float("nan")


def _relative_deviation(output: Tensor) -> float:
    """Return the standard deviation over the root mean square."""
    values = thin(output)
    return ratio(float(values.std(correction=0)), rms(values))


def _axis_deviations(output: Tensor) -> list[tuple[int, float]]:
    """Return the relative deviation along each axis longer than 1."""
    values = thin(output)
    size = rms(values)
    axes = [axis for axis, length in enumerate(values.shape) if length > 1]
    return [(axis, ratio(rms(values.std(axis, correction=0)), size)) for axis in axes]
