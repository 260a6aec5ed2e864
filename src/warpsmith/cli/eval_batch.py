"""`warpsmith eval-batch`: candidates as JSON lines in, records as JSON lines out, in the same order."""

import os
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from warpsmith.cli._archive import keep
from warpsmith.cli._options import (
    Baselines,
    Cases,
    Claim,
    Device,
    Gpu,
    Jobs,
    Json,
    Trust,
    Without,
    read_defences,
    read_modes,
)
from warpsmith.cli._output import console
from warpsmith.records import Record


def command(
    batch: Annotated[Path, typer.Argument(help="A file of JSON lines: a candidate, or task, direction and path.")],
    out: Annotated[Path | None, typer.Option(help="Append to this file and go on where it ends; else stdout.")] = None,
    device: Device = "auto",
    cases: Cases = None,
    gpu: Gpu = "H200",
    without: Without = "",
    until: Annotated[str, typer.Option(help="The last stage to run, such as check: no times then.")] = "",
    call_seconds: Annotated[float, typer.Option(min=1, help="The longest that one call may take.")] = 60.0,
    claim: Claim = False,
    baselines: Baselines = "",
    trust: Trust = False,
    jobs: Jobs = os.cpu_count() or 1,
    archive: Annotated[bool, typer.Option("--archive", help="Keep the records in the archive too.")] = False,
    as_json: Json = False,
) -> int:
    """Evaluate many kernels; every line gets a line, and a line that is no candidate gets one that says so."""
    from warpsmith.bench import Choices
    from warpsmith.bench.batch import Results, read_requests, run_batch

    chosen = Choices(
        device=device,
        cases=(cases,) if cases else (),
        gpu=gpu,
        trust=trust,
        without=read_defences(without),
        tier="claim" if claim else "search",
        baselines=read_modes(baselines),
        until=until,
        call_s=call_seconds,
    )
    requests = read_requests(batch)
    if out is None:
        for line in run_batch(requests, chosen, jobs):
            print(line, flush=True)
            _keep([line], archive)
        return 0
    results = Results(out)
    left = results.left(requests, chosen)
    _keep(results.lines, archive)
    done = len(requests) - len(left)
    for number, line in enumerate(run_batch(left, chosen, jobs), done + 1):
        results.add(line)
        _keep([line], archive)
        if not as_json:
            console().print(f"{number} of {len(requests)}", markup=False)
    return 0


def _keep(lines: list[str], archive: bool) -> None:
    """Archive the lines that are records; one that says what is wrong with its request is none."""
    if archive and (records := [record for line in lines if (record := _record(line)) is not None]):
        keep(records)


def _record(line: str) -> Record | None:
    try:
        return Record.parse(line)
    except ValidationError:
        return None
