"""`warpsmith tasks filter`: test tasks, one or whole folders of them."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from warpsmith import app
from warpsmith.app import FilterOutcome, FilterRequest, FilterRow, TasksFound
from warpsmith.base import HarnessError, UsageError
from warpsmith.cli._options import Json, Shapes
from warpsmith.cli._output import coloured, console, print_json, print_table
from warpsmith.tasks.filters import Filter, FilterReport, FilterResult, Sense
from warpsmith.tasks.host import OpenOptions
from warpsmith.tasks.inputs import read_shape

SIGNS = {Sense.AT_LEAST: "≥", Sense.AT_MOST: "≤", Sense.ABOVE: ">"}
COLOURS = {"pass": "green", "fail": "red", "error": "yellow", "fault": "magenta", "skip": "dim"}

Targets = Annotated[
    list[str], typer.Argument(help="Suite tasks, task folders, KernelBench files, file.py:Name, or folders of them.")
]
Jobs = Annotated[int, typer.Option(min=1, max=256, help="Tasks at once; the number of cores by default.")]
Seconds = Annotated[float, typer.Option(min=1, max=86400, help="The time limit of one task.")]
Models = Annotated[str, typer.Option(help="PROVIDER:MODEL[,setting=value]: a model that gives its opinion too.")]
Memory = Annotated[float, typer.Option("--memory-gb", min=0.5, max=4096, help="The memory limit of one task.")]


def filter_tasks(
    targets: Targets,
    jobs: Jobs = os.cpu_count() or 1,
    seconds: Seconds = 120.0,
    memory_gb: Memory = 8.0,
    inputs: Shapes = None,
    models: Models = "",
    as_json: Json = False,
) -> int:
    """Test tasks with filters, and print each filter's number and threshold; exit code 1 if one fails."""
    options = OpenOptions(
        seconds=seconds,
        memory_bytes=int(memory_gb * (1 << 30)),
        shapes=tuple(read_shape(text) for text in inputs or []),
    )
    with _Progress(quiet=as_json) as progress:
        rows = app.filter_tasks(FilterRequest(targets, options, jobs, models), progress.show)
    return _finish(rows, as_json)


class _Progress:
    """A progress bar, or lines without a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._done = self._total = 0
        self._bar: Any = None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, event: Any) -> None:
        """Take the next event."""
        if isinstance(event, TasksFound):
            self._total = event.total
            # Progress goes to stderr, so that stdout holds the result only.
            if event.total > 1 and sys.stderr.isatty():
                self._bar = _start_bar(event.total)
            return
        self._done += 1
        if self._bar is not None:
            self._bar.advance(0)
        elif not self._quiet:
            # A log shows the progress as lines; a bar would fill it with control characters.
            head = f"[{self._done}/{self._total}]"
            print(f"{head} {event.verdict:<5} {event.task} {event.seconds:.1f} s", file=sys.stderr, flush=True)


def _start_bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.add_task("filtering", total=total)
    bar.start()
    return bar


def _finish(rows: Sequence[FilterRow], as_json: bool) -> int:
    """Print the rows and return the exit code. Raise for a single task that could not be filtered."""
    many = len(rows) > 1
    # A single task has no table of rows, so its error is the command's error.
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
    # A fault of warpsmith counts more than a failed task: the result is incomplete.
    if any(row.verdict is FilterOutcome.FAULT for row in rows):
        return HarnessError.exit_code
    return 0 if all(row.verdict is FilterOutcome.PASS for row in rows) else 1


def _print_summary(rows: Sequence[FilterRow]) -> None:
    """Print a table on a terminal, and a line for each task elsewhere."""
    if sys.stdout.isatty():
        table = [
            (row.task, coloured((row.verdict, COLOURS[row.verdict])), f"{row.seconds:.1f}", row.detail) for row in rows
        ]
        print_table(("task", "verdict", "s", "what is wrong"), table)
    else:
        wide = max(len(row.task) for row in rows)
        for row in rows:
            # Aligned columns without a table, so that `grep` and `awk` read the lines.
            print(f"{row.verdict:<6}{row.task:<{wide}}  {row.seconds:6.1f} s  {row.detail}".rstrip())
    counts = [f"{sum(row.verdict is kind for row in rows)} {kind}" for kind in FilterOutcome]
    print(f"{len(rows)} tasks: {', '.join(counts)}")


def _print_report(report: FilterReport) -> None:
    """Print every filter of one task with its number and its threshold."""
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
    text = f"  {filter_:<18}{number:<20}{detail}"
    console().print(coloured("  ", (word, COLOURS[word]), text), soft_wrap=True)


def _number(result: FilterResult) -> str:
    return f"{result.value:.3g} {SIGNS[result.sense]} {result.threshold:g}"
