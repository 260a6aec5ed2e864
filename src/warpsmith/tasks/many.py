"""Filters over many tasks at once: each in a confined child of its own, a few side by side."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from warpsmith.base import UsageError
from warpsmith.tasks.client import TaskClient
from warpsmith.tasks.filters import FilterReport
from warpsmith.tasks.opened import OpenOptions
from warpsmith.tasks.target import Target


@dataclass(frozen=True)
class Filtered:
    """What came of one task: a report, or the sentence that says why there is none."""

    target: Target
    report: FilterReport | None
    error: str = ""


def filter_many(
    targets: Sequence[Target], options: OpenOptions | None = None, workers: int | None = None
) -> Iterator[Filtered]:
    """Each task's report in the order given, as they come; a broken task is an entry, not the end."""
    count = workers or os.cpu_count() or 1
    chosen = options or OpenOptions()
    alone = replace(chosen, threads=chosen.threads or 1)  # cores are better spent on tasks than on threads of one
    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(lambda target: _filtered(target, alone), targets)


def _filtered(target: Target, options: OpenOptions) -> Filtered:
    try:
        with TaskClient(target, options) as task:
            return Filtered(target, task.filter())
    except UsageError as error:
        return Filtered(target, None, str(error))
