"""`warpsmith pool`: start, show and stop evaluator processes that stay ready for all commands."""

from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import PoolReport
from warpsmith.base import pluralize
from warpsmith.cli._options import Json
from warpsmith.cli._output import console, print_json

NOTHING_THERE = 4
EVALUATORS_HELP = "Evaluations at once; one per core by default, at most 8."
IDLE_HELP = "Minutes without a request after which the pool ends."

group = typer.Typer(add_completion=False, help="Start, show and stop evaluators that stay ready for all commands.")


@group.command("start")
def start(
    evaluators: Annotated[int | None, typer.Option(min=1, max=256, help=EVALUATORS_HELP)] = None,
    idle_minutes: Annotated[float, typer.Option(min=0.1, help=IDLE_HELP)] = 30.0,
    as_json: Json = False,
) -> None:
    """Start a pool in the background, unless one runs already."""
    found = app.start_pool(evaluators, idle_minutes)
    print_json(found) if as_json else _print(found)


@group.command("status")
def status(as_json: Json = False) -> int:
    """Show the pool; exit code 4 if none runs."""
    found = app.pool_status()
    print_json(found) if as_json else _print(found)
    return 0 if found.is_running else NOTHING_THERE


@group.command("stop")
def stop(as_json: Json = False) -> None:
    """End the pool, if one runs. Commands evaluate again what it had not finished."""
    found = app.stop_pool()
    print_json(found) if as_json else _print(found)


def _print(found: PoolReport) -> None:
    out, status = console(), found.status
    if status is None:
        out.print("No pool runs. `warpsmith pool start` starts one.")
        return
    done = f"{pluralize(status.done, 'evaluation')}, {pluralize(status.faults, 'fault')}"
    if not found.is_running:
        out.print(f"The pool has ended after {status.running_s:.0f} s: {done}.")
        return
    since, end = f"{status.running_s:.0f} s", f"{status.idle_minutes:g} idle minutes"
    out.print(f"pool:        process {status.pid} for {since}; it ends after {end}")
    out.print(f"evaluators:  {status.evaluators}, {status.busy} busy; {pluralize(status.waiting, 'request')} waiting")
    out.print(f"done:        {done}")
    if found.refused:
        out.print(f"not used:    {found.refused}; `warpsmith pool stop` ends it")
