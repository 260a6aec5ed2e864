"""Filter results as data. Loads no torch."""

from enum import StrEnum

from pydantic import Field

from warpsmith.records import Model, Origin


class Filter(StrEnum):
    """One defect that a task can have per member."""

    OUTPUT_RANGE = "output_range"  # all outputs lie in a tiny interval around zero, or are not finite
    OUTPUT_DEVIATION = "output_deviation"  # all outputs are nearly one number
    AXIS_VARIATION = "axis_variation"  # the output repeats along an axis
    INPUT_IMPACT = "input_impact"  # an input that changes nothing
    PARAMETER_IMPACT = "parameter_impact"  # a parameter that changes nothing
    CONSTANT_BASELINE = "constant_baseline"  # an output that ignores the inputs, or copies one, is within tolerance
    REPEATABILITY = "repeatability"  # two calls with the same arguments differ
    GRADIENTS = "gradients"  # no gradient, or one that is zero or not finite
    DEAD_CODE = "dead_code"  # a result that nobody uses
    REPEATED_WORK = "repeated_work"  # the same operation on the same values twice
    CONSTANT_RESULT = "constant_result"  # an operation whose result never changes although its inputs do
    INEFFICIENCY = "inefficiency"  # an operation that does nothing, or undoes the one before
    OPINION = "opinion"  # a model finds the task unsound


class Sense(StrEnum):
    """The passing side of a threshold."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    ABOVE = "above"


class Measure(Model):
    """One measured number with its subject: an input, an axis, an operation with its line."""

    what: str
    value: float


class FilterResult(Model):
    """One filter's worst value, its threshold, and a sentence about it."""

    filter: Filter
    passed: bool
    value: float
    threshold: float
    sense: Sense
    detail: str
    measures: tuple[Measure, ...] = ()


class Skip(Model):
    """A filter that was not applied, with the reason."""

    filter: Filter
    reason: str


class FilterReport(Model):
    """All filter results of one task; `notes` say how its inputs were made smaller."""

    task: str
    origin: Origin
    results: tuple[FilterResult, ...]
    skipped: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = Field(default=0.0, ge=0)

    @property
    def passed(self) -> bool:
        """Whether no filter failed."""
        return all(result.passed for result in self.results)

    @property
    def failed(self) -> tuple[FilterResult, ...]:
        """The failed filter results."""
        return tuple(result for result in self.results if not result.passed)

    def find_result(self, filter_: Filter) -> FilterResult | None:
        """Return one filter's result, or None."""
        return next((result for result in self.results if result.filter is filter_), None)
