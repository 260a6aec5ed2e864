"""`warpsmith tasks filter`: one task or a folder of them, each in its own confined child, side by side."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from enum import StrEnum
from threading import Lock
from typing import Annotated

import typer

from warpsmith.base import HarnessError, UsageError
from warpsmith.cli._options import Json, Shapes
from warpsmith.cli._output import coloured, console, print_json, print_table
from warpsmith.records import Model, Task
from warpsmith.tasks.filters import (
    SYSTEM,
    Filter,
    FilterReport,
    FilterResult,
    Opinion,
    Sense,
    TaskOpinion,
    add_opinion,
    opinion_prompt,
    parse_opinion,
)
from warpsmith.tasks.formats import TaskTarget, find_all
from warpsmith.tasks.host import OpenOptions, open_task
from warpsmith.tasks.inputs import read_shape

SIGNS = {Sense.AT_LEAST: "≥", Sense.AT_MOST: "≤", Sense.ABOVE: ">"}
COLOURS = {"pass": "green", "fail": "red", "error": "yellow", "fault": "magenta", "skip": "dim"}

Targets = Annotated[
    list[str], typer.Argument(help="Suite tasks, task folders, KernelBench files, file.py:Name, or folders of them.")
]
Jobs = Annotated[int, typer.Option(min=1, max=256, help="Tasks at once; as many as there are cores when not given.")]
Seconds = Annotated[float, typer.Option(min=1, max=86400, help="What one task may take before it is ended.")]
Models = Annotated[str, typer.Option(help="PROVIDER:MODEL[,setting=value]: a model that is asked for its opinion too.")]
Memory = Annotated[float, typer.Option("--memory-gb", min=0.5, max=4096, help="What one task's code may allocate.")]


class FilterOutcome(StrEnum):
    """How a task came out of the filters; an error is the task's, a fault is ours."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    FAULT = "fault"


class FilterRow(Model):
    """One task in the summary."""

    target: str
    task: str
    verdict: FilterOutcome
    failed: tuple[Filter, ...] = ()
    error: str = ""
    seconds: float
    report: FilterReport | None = None

    @property
    def detail(self) -> str:
        """What is wrong, in words: the filters that objected and what the first of them says."""
        if self.report is None:
            return self.error
        named = ", ".join(self.failed)
        return f"{named}: {self.report.failed[0].detail}" if named else ""


def filter_tasks(
    targets: Targets,
    jobs: Jobs = os.cpu_count() or 1,
    seconds: Seconds = 120.0,
    memory_gb: Memory = 8.0,
    inputs: Shapes = None,
    models: Models = "",
    as_json: Json = False,
) -> int:
    """Is a task worth a kernel: filters with their numbers and thresholds, on one task or on folders of them."""
    found = tuple(dict.fromkeys(target for text in targets for target in find_all(text)))
    many = len(found) > 1
    options = OpenOptions(
        seconds=seconds,
        memory_bytes=int(memory_gb * (1 << 30)),
        threads=max(1, (os.cpu_count() or 1) // min(jobs, len(found))),
        shapes=tuple(read_shape(text) for text in inputs or []),
    )
    opinion = _opinion(models) if models else None
    if not many:
        rows = [_row(found[0], options, opinion)]
    else:
        order = {target.label: place for place, target in enumerate(found)}
        arrived = _shown(_rows(found, options, jobs, opinion), len(found), quiet=as_json)
        rows = sorted(arrived, key=lambda row: order[row.target])
    return _finish(rows, many, as_json)


def _finish(rows: Sequence[FilterRow], many: bool, as_json: bool) -> int:
    """Print and give the exit code; a single task that cannot be opened is an error of usage."""
    if not many and rows[0].verdict is FilterOutcome.ERROR:
        raise UsageError(rows[0].error)
    if not many and rows[0].verdict is FilterOutcome.FAULT:
        raise HarnessError(rows[0].error)
    if as_json:
        print_json(rows if many else rows[0])
    elif many:
        _print_summary(rows)
    elif rows[0].report:
        _print_report(rows[0].report)
    if any(row.verdict is FilterOutcome.FAULT for row in rows):
        return HarnessError.exit_code
    return 0 if all(row.verdict is FilterOutcome.PASS for row in rows) else 1


def _opinion(models: str) -> Opinion:
    """The first of the models as one who has an opinion of tasks; what keeps it from one is told in its place."""
    from warpsmith.llm import ModelError, Prompt, ask_all, open_ensemble

    model, alone = next(iter(open_ensemble(models))), Lock()

    def opinion(task: Task) -> TaskOpinion | str:
        with alone:  # tasks are filtered side by side
            (said,) = ask_all([(model, Prompt(system=SYSTEM, user=opinion_prompt(task), kind="opinion"))])
        if isinstance(said, ModelError):
            return f"{model.name}: {said}"
        found = parse_opinion(said.text)
        return found if isinstance(found, TaskOpinion) else f"the answer of {model.name} is no judgement: {found}"

    return opinion


def _rows(found: Sequence[TaskTarget], options: OpenOptions, jobs: int, opinion: Opinion | None) -> Iterator[FilterRow]:
    """Rows as they are done."""
    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(_row, target, options, opinion) for target in found]):
            yield future.result()
    except KeyboardInterrupt:
        # The threads wait for children that end with this process; joining them would take the whole time limit.
        os._exit(130)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _row(target: TaskTarget, options: OpenOptions, opinion: Opinion | None) -> FilterRow:
    begun = time.monotonic()
    report, verdict, said = None, FilterOutcome.ERROR, ""
    try:
        with open_task(target, options) as opened:
            report = opened.filter()
            if opinion is not None:
                report = add_opinion(report, opened.describe(), opinion)
            verdict = FilterOutcome.PASS if report.passed else FilterOutcome.FAIL
    except UsageError as error:
        said = str(error)
    except HarnessError as error:
        verdict, said = FilterOutcome.FAULT, str(error)
    return FilterRow(
        target=target.label,
        task=report.task if report else target.name or target.path.stem,
        verdict=verdict,
        failed=tuple(result.filter for result in report.failed) if report else (),
        error=said,
        seconds=time.monotonic() - begun,
        report=report,
    )


def _shown(rows: Iterator[FilterRow], count: int, quiet: bool) -> list[FilterRow]:
    """The rows, with a bar on a terminal while they come and a line each elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        return list(track(rows, "filtering", total=count, console=Console(stderr=True), transient=True))
    found = []
    for row in rows:
        found.append(row)
        if not quiet:
            print(
                f"[{len(found)}/{count}] {row.verdict:<5} {row.task} {row.seconds:.1f} s", file=sys.stderr, flush=True
            )
    return found


def _print_summary(rows: Sequence[FilterRow]) -> None:
    """A table on a terminal, a line a task elsewhere."""
    if sys.stdout.isatty():
        table = [
            (row.task, coloured((row.verdict, COLOURS[row.verdict])), f"{row.seconds:.1f}", row.detail) for row in rows
        ]
        print_table(("task", "verdict", "s", "what is wrong"), table)
    else:
        wide = max(len(row.task) for row in rows)
        for row in rows:
            print(f"{row.verdict:<6}{row.task:<{wide}}  {row.seconds:6.1f} s  {row.detail}".rstrip())
    counts = [f"{sum(row.verdict is kind for row in rows)} {kind}" for kind in FilterOutcome]
    print(f"{len(rows)} tasks: {', '.join(counts)}")


def _print_report(report: FilterReport) -> None:
    """Every filter of one task with its number and its threshold."""
    out = console()
    word = "pass" if report.passed else "fail"
    how = f" ({report.origin}, {report.seconds:.1f} s)"
    out.print(coloured(f"{report.task}: ", (word, COLOURS[word]), how), soft_wrap=True)
    for result in report.results:
        _print_line("pass" if result.passed else "fail", result.filter, _number(result), result.detail)
    for skip in report.skipped:
        _print_line("skip", skip.filter, "", skip.reason)
    for note in report.notes:
        out.print(f"note: {note}", style="dim")


def _print_line(word: str, filter_: Filter, number: str, detail: str) -> None:
    said = f"  {filter_:<18}{number:<20}{detail}"
    console().print(coloured("  ", (word, COLOURS[word]), said), soft_wrap=True)


def _number(result: FilterResult) -> str:
    return f"{result.value:.3g} {SIGNS[result.sense]} {result.threshold:g}"
