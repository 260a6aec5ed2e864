"""Tasks through the filters, each in a confined process."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Lock

from warpsmith import llm
from warpsmith.app.jobs import Watch, ignore
from warpsmith.base import HarnessError, UsageError
from warpsmith.llm import ModelError, Prompt, ask_all
from warpsmith.records import Model, Task
from warpsmith.tasks.filters import (
    SYSTEM,
    Filter,
    FilterReport,
    Opinion,
    TaskOpinion,
    add_opinion,
    opinion_prompt,
    parse_opinion,
)
from warpsmith.tasks.formats import TaskTarget, find_all
from warpsmith.tasks.host import OpenOptions, open_task


class FilterOutcome(StrEnum):
    """The outcome of a task's filters."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    FAULT = "fault"


class FilterRow(Model):
    """The outcome of one task."""

    target: str
    task: str
    verdict: FilterOutcome
    failed: tuple[Filter, ...] = ()
    error: str = ""
    seconds: float
    report: FilterReport | None = None

    @property
    def detail(self) -> str:
        """The filters that failed, with the detail of the first one."""
        if self.report is None:
            return self.error
        names = ", ".join(self.failed)
        return f"{names}: {self.report.failed[0].detail}" if names else ""


@dataclass(frozen=True)
class FilterRequest:
    """Tasks to filter, limits, and a model for opinions."""

    targets: Sequence[str]
    options: OpenOptions = field(default_factory=OpenOptions)
    jobs: int = 1
    models: str = ""


@dataclass(frozen=True)
class TasksFound:
    """Event: so many tasks will be filtered."""

    total: int


def filter_tasks(request: FilterRequest, watch: Watch = ignore) -> list[FilterRow]:
    """Filter tasks; return rows in target order. Events: TasksFound, FilterRow."""
    # Two folders may hold the same task; it is filtered once.
    found = tuple(dict.fromkeys(target for text in request.targets for target in find_all(text)))
    opinion = _ask_opinion(request.models) if request.models else None
    watch(TasksFound(len(found)))
    # Torch in each process gets a share of the cores: more threads than cores would slow all of them.
    threads = max(1, (os.cpu_count() or 1) // min(request.jobs, len(found)))
    request = replace(request, options=replace(request.options, threads=threads))
    if len(found) == 1:
        return [_filter_one(found[0], request.options, opinion)]
    order = {target.label: place for place, target in enumerate(found)}
    rows = []
    for row in _filter_all(found, request, opinion):
        rows.append(row)
        watch(row)
    return sorted(rows, key=lambda row: order[row.target])


def _ask_opinion(models: str) -> Opinion:
    """Return a function that asks the first model; its errors are texts."""
    model, lock = next(iter(llm.open_ensemble(models))), Lock()

    def opinion(task: Task) -> TaskOpinion | str:
        with lock:  # tasks are filtered side by side, and one model answers one request at a time
            (answer,) = ask_all([(model, Prompt(system=SYSTEM, user=opinion_prompt(task), kind="opinion"))])
        if isinstance(answer, ModelError):
            return f"{model.name}: {answer}"
        found = parse_opinion(answer.text)
        return found if isinstance(found, TaskOpinion) else f"the answer of {model.name} is no judgement: {found}"

    return opinion


def _filter_all(found: Sequence[TaskTarget], request: FilterRequest, opinion: Opinion | None) -> Iterator[FilterRow]:
    """Yield the rows as they are done."""
    pool = ThreadPoolExecutor(request.jobs)
    try:
        for future in as_completed([pool.submit(_filter_one, one, request.options, opinion) for one in found]):
            yield future.result()
    except KeyboardInterrupt:
        # The threads wait for processes that end with this one; joining them would take their whole time limit.
        os._exit(130)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _filter_one(target: TaskTarget, options: OpenOptions, opinion: Opinion | None) -> FilterRow:
    begin = time.monotonic()
    report, verdict, text = None, FilterOutcome.ERROR, ""
    try:
        with open_task(target, options) as opened:
            report = opened.filter()
            if opinion is not None:
                report = add_opinion(report, opened.describe(), opinion)
            verdict = FilterOutcome.PASS if report.passed else FilterOutcome.FAIL
    # A UsageError is the task's fault, a HarnessError is ours.
    except UsageError as error:
        text = str(error)
    except HarnessError as error:
        verdict, text = FilterOutcome.FAULT, str(error)
    return FilterRow(
        target=target.label,
        task=report.task if report else target.name or target.path.stem,
        verdict=verdict,
        failed=tuple(result.filter for result in report.failed) if report else (),
        error=text,
        seconds=time.monotonic() - begin,
        report=report,
    )
