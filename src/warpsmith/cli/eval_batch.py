"""`warpsmith eval-batch`: candidates as JSON lines in, records as JSON lines out, in the same order."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import kernel_candidate, kernels_below
from warpsmith.base import UsageError
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
    warn_of_unmeasured,
)
from warpsmith.cli._output import console, print_json
from warpsmith.records import Model, Record, Verdict

if TYPE_CHECKING:
    from warpsmith.evaluation import BatchLine, EvaluationConfig

BATCH_HELP = "JSON lines: a candidate, or task, direction and path. Or a folder of kernels: TASK/DIRECTION.cu."

OUTSIDE_HELP = "Read kernels outside of the batch file's folder too; their text becomes part of the results."


class Appended(Model):
    """What a file of results holds now: its lines, how many were there before, how many are of no candidate."""

    out: str
    lines: int
    there: int
    unusable: int


def command(
    batch: Annotated[Path, typer.Argument(help=BATCH_HELP)],
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
    allow_outside: Annotated[bool, typer.Option("--allow-outside", help=OUTSIDE_HELP)] = False,
    jobs: Jobs = os.cpu_count() or 1,
    archive: Annotated[bool, typer.Option(help="Keep the records in the archive too.")] = False,
    as_json: Json = False,
) -> int:
    """Evaluate many kernels; every line gets a line; exit code 1 when one of them could not be evaluated."""
    from warpsmith.evaluation import EvaluationConfig, run_batch

    chosen = EvaluationConfig(
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
    warn_of_unmeasured(device, {"--claim": claim, "--baselines": baselines})
    requests = _requests(batch, allow_outside)
    if not requests:
        print(f"warning: {batch} has no candidates: nothing is evaluated.", file=sys.stderr)
    if out is not None:
        done = _append(requests, chosen, jobs, out, archive, quiet=as_json)
        if as_json:
            print_json(done)
        return 1 if done.unusable else 0
    unusable = 0
    for line in run_batch(requests, chosen, jobs):
        print(line, flush=True)
        _keep([line], archive)
        unusable += _is_unusable(line)
    return 1 if unusable else 0


def _append(
    requests: "list[BatchLine]", choices: "EvaluationConfig", jobs: int, out: Path, archive: bool, quiet: bool
) -> Appended:
    """Go on where the file of results ends."""
    from warpsmith.evaluation import Ahead, Results, run_batch

    results = Results(out)
    left = results.left(requests, choices)
    ahead = Ahead(results)
    _keep(results.lines, archive)
    there, unusable = len(requests) - len(left), sum(map(_is_unusable, results.lines))
    if there and not quiet:
        refused = f", {unusable} of them without a record" if unusable else ""
        console().print(f"{there} of {len(requests)} were there already{refused}")
    for number, line in enumerate(run_batch(left, choices, jobs, ahead=ahead), there + 1):
        results.add(line)
        _keep([line], archive)
        unusable += _is_unusable(line)
        if not quiet:
            console().print(f"{number} of {len(requests)}: {_said(line)}")
    ahead.over()
    return Appended(out=str(out.absolute()), lines=len(requests), there=there, unusable=unusable)


def _requests(batch: Path, outside: bool) -> "list[BatchLine]":
    """The lines of a file, or the kernels of a folder."""
    from warpsmith.evaluation import read_requests

    if not batch.is_dir():
        return read_requests(batch, outside)
    return [_request(number, path) for number, path in enumerate(kernels_below(batch), 1)]


def _request(number: int, path: Path) -> "BatchLine":
    """A kernel of a folder, or what is wrong with it."""
    from warpsmith.evaluation import BatchLine
    from warpsmith.tasks.suite import folders

    if path.absolute().parent.name not in folders():
        return BatchLine(number, str(path), None, f"{path} lies in no folder named after a task of the suite")
    try:
        target, candidate = kernel_candidate(path, "", {})
    except UsageError as error:
        return BatchLine(number, str(path), None, str(error))
    return BatchLine(number, str(path), candidate.model_copy(update={"task": target}))


def _is_unusable(line: str) -> bool:
    """Whether a result says what is wrong with its request instead of being a record."""
    return not isinstance(Record.read(line), Record)


def _said(line: str) -> str:
    """What a result says in a few words."""
    record = Record.read(line)
    if isinstance(record, str):
        return str(json.loads(line)["error"])
    reasons = [f" ({result.reason})" for result in record.results if result.reason]
    why = reasons[-1] if reasons and record.concluded is not Verdict.PASS else ""
    return f"{record.candidate.task} {record.candidate.direction} {record.concluded}{why}"


def _keep(lines: list[str], archive: bool) -> None:
    """Archive the lines that are records; one that says what is wrong with its request is none."""
    if archive and (records := [one for line in lines if isinstance(one := Record.read(line), Record)]):
        keep(records)
