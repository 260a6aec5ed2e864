"""`warpsmith tell RUN DIR`: answers or records of a search that `warpsmith ask` began."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import TellReport, TellRequest
from warpsmith.cli._live import best_lines
from warpsmith.cli._options import Jobs, Json, Trust
from warpsmith.cli._output import console, print_json


def command(
    run: Annotated[str, typer.Argument(help="The name of a run.")],
    folder: Annotated[Path | None, typer.Argument(help="The folder that ask wrote, with the answers in it.")] = None,
    requests: Annotated[Path | None, typer.Option(help="Verify here, and write a batch to evaluate elsewhere.")] = None,
    results: Annotated[Path | None, typer.Option(help="Take the records that eval-batch made of requests.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Close the questions without an answer.")] = False,
    jobs: Jobs = 2,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Take answers or records; questions without an answer stay open."""
    found, best = app.tell(TellRequest(run, folder, requests, results, drop, jobs, trust))
    # The best kernel is part of the JSON as text, as on a terminal.
    report = found.model_copy(update={"best": "; ".join(best_lines(best))})
    if as_json:
        print_json(report)
    else:
        console().print("\n".join(_lines(report)))
    return 0


def _lines(report: TellReport) -> Iterator[str]:
    yield from (f"  {line}" for line in report.lines)
    if report.waiting:
        yield f"  {report.waiting} wait for their evaluation elsewhere"
    if report.unanswered:
        yield f"  not answered: {', '.join(report.unanswered)}"
    yield report.best
    yield f"next: {report.next}"
