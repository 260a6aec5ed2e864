"""Is a task worth a kernel: filters with numbers and thresholds. The models load no torch; `run` does."""

from typing import TYPE_CHECKING

from warpsmith.tasks.filters.opinion import Judgement, Opinion, with_opinion
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Measure, Sense, Skip

if TYPE_CHECKING:
    from warpsmith.tasks.reference.program import Program

SECONDS = 20.0  # optional measurements stop when so much has been spent on one task


def run(program: "Program", seconds: float = SECONDS) -> FilterReport:
    """All filters on one task. Runs the task's code: the caller has confined this process or trusts the task."""
    from warpsmith.tasks.filters.apply import apply

    return apply(program, seconds)


__all__ = [
    "Filter",
    "FilterReport",
    "FilterResult",
    "Judgement",
    "Measure",
    "Opinion",
    "Sense",
    "Skip",
    "run",
    "with_opinion",
]
