"""A language model's opinion of a task."""

import json
from collections.abc import Callable
from typing import TypeAlias

from pydantic import Field

from warpsmith.base import find_json_objects
from warpsmith.records import Model, Task
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Sense, Skip

UNSOUND = 0.5  # the confidence from which "unsound" counts as an objection
ABSENT = Skip(filter=Filter.OPINION, reason="no model is named: --models PROVIDER:MODEL")


class TaskOpinion(Model):
    """Whether a fast kernel for the task would be meaningful, with confidence and reason."""

    sound: bool
    confidence: float = Field(ge=0, le=1)
    detail: str = Field(min_length=1)


Opinion: TypeAlias = Callable[[Task], TaskOpinion | str]
SYSTEM = "You judge whether a benchmark task for GPU kernels is sound. You answer with one JSON object alone."
QUESTION = """A kernel will be written for this task, checked against the function below on random inputs, and timed.

Task {name}: {description}

```python
{source}
```

Would a fast and right kernel for it mean anything? It would not where most of the work can be left out and the result
stays, where the result hardly depends on the inputs, or where the function does not do what its description says.

Answer with {{"sound": true or false, "confidence": 0 to 1, "detail": "one sentence: why"}}.
"""


def opinion_prompt(task: Task) -> str:
    """Return the question to a model about a task."""
    return QUESTION.format(name=task.name, description=task.description, source=task.source.strip())


def parse_opinion(text: str) -> TaskOpinion | str:
    """Return an answer's first opinion, or an error sentence."""
    why = "it holds no JSON object"
    for one in find_json_objects(text):
        found = TaskOpinion.read(json.dumps(one))
        if isinstance(found, TaskOpinion):
            return found
        why = found
    return why


def add_opinion(report: FilterReport, task: Task, opinion: Opinion) -> FilterReport:
    """Return the report with the model's answer, or the reason for its absence, instead of the skipped filter."""
    found = opinion(task)
    rest = tuple(skip for skip in report.skipped if skip.filter is not Filter.OPINION)
    if isinstance(found, str):
        return report.model_copy(update={"skipped": (*rest, Skip(filter=Filter.OPINION, reason=found))})
    # A sound task has nothing against it, whatever the confidence.
    against = 0.0 if found.sound else found.confidence
    result = FilterResult(
        filter=Filter.OPINION,
        passed=against < UNSOUND,
        value=against,
        threshold=UNSOUND,
        sense=Sense.AT_MOST,
        detail=found.detail,
    )
    return report.model_copy(update={"results": (*report.results, result), "skipped": rest})
