"""A model's opinion of a task, from a function that is passed in: this room knows no models."""

from collections.abc import Callable
from typing import TypeAlias

from pydantic import Field

from warpsmith.records import Model, Task
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Sense, Skip

UNSOUND = 0.5  # the confidence from which "unsound" counts as an objection
ABSENT = Skip(filter=Filter.OPINION, reason="no model is configured")


class Judgement(Model):
    """What a model says of a task: whether a fast kernel for it would mean anything, how sure it is, and why."""

    sound: bool
    confidence: float = Field(ge=0, le=1)
    detail: str = Field(min_length=1)


Opinion: TypeAlias = Callable[[Task], Judgement]


def with_opinion(report: FilterReport, task: Task, opinion: Opinion) -> FilterReport:
    """The report with the model's answer in place of the skipped one."""
    found = opinion(task)
    against = 0.0 if found.sound else found.confidence
    result = FilterResult(
        filter=Filter.OPINION,
        passed=against < UNSOUND,
        value=against,
        threshold=UNSOUND,
        sense=Sense.AT_MOST,
        detail=found.detail,
    )
    rest = tuple(skip for skip in report.skipped if skip.filter is not Filter.OPINION)
    return report.model_copy(update={"results": (*report.results, result), "skipped": rest})
