"""`warpsmith eval-batch`: candidates as JSON lines in, records as JSON lines out, in the same order."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import BatchProgress, BatchRequest
from warpsmith.cli._options import (
    Baselines,
    Cases,
    Claim,
    Device,
    Gpu,
    Jobs,
    Json,
    Pool,
    Trust,
    Without,
    read_defences,
    read_modes,
    warn_of_unmeasured,
)
from warpsmith.cli._output import console, print_json
from warpsmith.evaluation import EvaluationConfig

BATCH_HELP = "JSON lines: a candidate, or task, direction and path. Or a folder of kernels: TASK/DIRECTION.cu."
OUTSIDE_HELP = "Read kernels outside of the batch file's folder too; their text becomes part of the results."
OUT_HELP = "Append to this file and resume after its last line; stdout by default."


def command(
    batch: Annotated[Path, typer.Argument(help=BATCH_HELP)],
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    device: Device = "auto",
    cases: Cases = None,
    gpu: Gpu = "H200",
    without: Without = "",
    until: Annotated[str, typer.Option(help="The last stage to run, such as check, which measures no times.")] = "",
    call_seconds: Annotated[float, typer.Option(min=1, help="The longest that one call may take.")] = 60.0,
    claim: Claim = False,
    baselines: Baselines = "",
    trust: Trust = False,
    allow_outside: Annotated[bool, typer.Option("--allow-outside", help=OUTSIDE_HELP)] = False,
    jobs: Jobs = os.cpu_count() or 1,
    archive: Annotated[bool, typer.Option(help="Save the records in the archive too.")] = False,
    pool: Pool = True,
    as_json: Json = False,
) -> int:
    """Evaluate many kernels, one result line each; exit code 1 if one could not be evaluated."""
    config = EvaluationConfig(
        device=device,
        cases=(cases,) if cases else (),
        gpu=gpu,
        trust=trust,
        without=read_defences(without),
        effort="thorough" if claim else "usual",
        baselines=read_modes(baselines),
        until=until,
        call_s=call_seconds,
    )
    warn_of_unmeasured(device, {"--baselines": baselines})

    def show(event: BatchProgress) -> None:
        if not event.total:
            print(f"warning: {batch} has no candidates: nothing is evaluated.", file=sys.stderr)
        # Flushed: a reader of a pipe gets each result as soon as it exists.
        if out is None and event.line:
            print(event.line, flush=True)
        elif out is not None and not as_json:
            _print(event)

    found = app.evaluate_many(BatchRequest(batch, config, out, jobs, allow_outside, archive, pool), show)
    if as_json and out is not None:
        print_json(found)
    # A candidate that failed is a result; only lines without a record count as errors.
    return 1 if found.unusable else 0


def _print(event: BatchProgress) -> None:
    if event.line:
        console().print(f"{event.done} of {event.total}: {app.describe_line(event.line)}")
    elif event.done:
        unusable = f", {event.unusable} of them without a record" if event.unusable else ""
        console().print(f"{event.done} of {event.total} were there already{unusable}")
