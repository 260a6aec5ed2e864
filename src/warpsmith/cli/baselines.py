"""`warpsmith baselines`: measure the modes of torch once, for all later evaluations."""

from typing import Annotated, Any

import typer

from warpsmith import app
from warpsmith.app import USUAL_JOBS, BaselineCompiled, BaselineRequest
from warpsmith.cli._options import Baselines, Json, read_modes
from warpsmith.cli._output import console, print_json
from warpsmith.evaluation import BaselineRow, Prepared
from warpsmith.records import Direction

JOBS_HELP = "The number of processes that compile at once; half the cores by default, at most 8."


def command(
    tasks: Annotated[list[str] | None, typer.Argument(help="Tasks; the whole suite by default.")] = None,
    direction: Annotated[Direction | None, typer.Option(help="The direction; both by default.")] = None,
    baselines: Baselines = "",
    again: Annotated[bool, typer.Option("--again", help="Measure stored baselines again.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help=JOBS_HELP)] = USUAL_JOBS,
    as_json: Json = False,
) -> int:
    """Measure the modes of torch; a second call resumes. Exit code 3 if a case has no time."""
    request = BaselineRequest(tuple(tasks or ()), direction, read_modes(baselines), again, jobs)
    rows = app.measure_baselines(request, app.ignore if as_json else _show)
    if as_json:
        print_json(rows)
    return 3 if any(row.error for row in rows) else 0


def _show(event: Any) -> None:
    if isinstance(event, BaselineCompiled):
        console().print(f"compiled {event.done} of {event.total}: {_describe_compiled(event.case)}")
    else:
        console().print(_describe_row(event))


def _describe_row(row: BaselineRow) -> str:
    name = f"{row.task} {row.direction} {row.case}"
    if row.baselines is None:
        return f"{name}: {row.error}"
    times = ", ".join(f"{one.mode} {one.us:.2f}" for one in row.baselines.modes)
    left = "; kept from earlier, --again measures it" if row.left else ""
    return "; ".join([f"{name}: {times} µs; best {row.baselines.best.mode}{left}", *row.baselines.notes()])


def _describe_compiled(found: Prepared) -> str:
    failed = [f"{mode} not yet: {why}" for mode, why in found.failed.items()]
    return "; ".join([f"{found.one.name} in {found.seconds:.0f} s", *failed])
