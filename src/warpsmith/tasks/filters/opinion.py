"""A model's opinion of a task, from a function that is passed in: this room knows no models."""

import json
from collections.abc import Callable
from typing import TypeAlias

from pydantic import Field

from warpsmith.base import find_json_objects
from warpsmith.records import Model, Task
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Sense, Skip

UNSOUND = 0.5  # the confidence from which "unsound" counts as an objection
ABSENT = Skip(filter=Filter.OPINION, reason="no model is named: --models PROVIDER:MODEL")


class Judgement(Model):
    """What a model says of a task: whether a fast kernel for it would mean anything, how sure it is, and why."""

    sound: bool
    confidence: float = Field(ge=0, le=1)
    detail: str = Field(min_length=1)


Opinion: TypeAlias = Callable[[Task], Judgement | str]
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


def question(task: Task) -> str:
    """What a model is asked about a task."""
    return QUESTION.format(name=task.name, description=task.description, source=task.source.strip())


def read_judgement(text: str) -> Judgement | str:
    """The first judgement in an answer; else what is wrong with it."""
    why = "it holds no JSON object"
    for one in find_json_objects(text):
        found = Judgement.read(json.dumps(one))
        if isinstance(found, Judgement):
            return found
        why = found
    return why


def with_opinion(report: FilterReport, task: Task, opinion: Opinion) -> FilterReport:
    """The report with the model's answer in place of the skipped one, or with the reason why there is none."""
    found = opinion(task)
    rest = tuple(skip for skip in report.skipped if skip.filter is not Filter.OPINION)
    if isinstance(found, str):
        return report.model_copy(update={"skipped": (*rest, Skip(filter=Filter.OPINION, reason=found))})
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
