"""`warpsmith regrade`: published records or kernels evaluated again here, and whether the two agree."""

import os
from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import RegradeRequest
from warpsmith.cli._archive import warn_not_archived
from warpsmith.cli._options import Device, Jobs, Json, Macros, Pool, Trust, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.records import Verdict
from warpsmith.report import Agreement, AgreementAnswer

WITHIN_HELP = "The share by which times of the same hardware may differ."
AGAINST_HELP = "A folder with the records of kernels; docs/results beside the folder of kernels by default."
QUICK_HELP = "On a GPU, verdicts and the kernels' own times as a search measures them, and of torch eager alone."
SEED_HELP = "Draw the same inputs and held-out shapes again instead of new ones."


def command(
    files: Annotated[list[Path], typer.Argument(help="Records (.json, .jsonl), kernels (.cu), or folders of them.")],
    against: Annotated[Path | None, typer.Option(help=AGAINST_HELP)] = None,
    task: Annotated[str, typer.Option(help="The task as eval takes it, if the files do not name it.")] = "",
    macro: Macros = None,
    device: Device = "auto",
    same_seed: Annotated[bool, typer.Option("--same-seed", help=SEED_HELP)] = False,
    quick: Annotated[bool, typer.Option("--quick", help=QUICK_HELP)] = False,
    within: Annotated[float, typer.Option(min=0, help=WITHIN_HELP)] = 0.1,
    trust: Trust = False,
    jobs: Jobs = os.cpu_count() or 1,
    archive: Annotated[bool, typer.Option(help="Save the new records in the archive.")] = True,
    pool: Pool = True,
    as_json: Json = False,
) -> int:
    """Evaluate again and compare; exit code 0 all agree, 1 disagreement, 3 fault of warpsmith, 4 no verdict."""
    macros = read_macros(macro or [])
    request = RegradeRequest(
        files, against, task, macros, device, same_seed, quick, within, trust, jobs, is_archived=archive, pool=pool
    )
    # With --json the rows are printed at the end, as one document.
    found, why = app.regrade(request, app.ignore if as_json else _print)
    warn_not_archived(why)
    if as_json:
        print_json(found)
    else:
        _print_counts(found)
    return _exit_code(found)


def _exit_code(found: list[Agreement]) -> int:
    answers = {one.answer for one in found}
    # A disagreement is the strongest answer, then a fault, then a missing verdict.
    if AgreementAnswer.DISAGREES in answers:
        return 1
    if any(one.after is Verdict.FAULT for one in found):
        return 3
    return 4 if AgreementAnswer.NO_VERDICT in answers else 0


def _print(one: Agreement) -> None:
    out = console()
    times = f"; {one.times.kind} times {one.times.ratio:.3f} of then" if one.times else ""
    text = f"{one.task} {one.direction}, then {one.before}, now {one.after}{times}" if one.task else "no record"
    out.print(f"{one.answer.upper()}  {one.where}: {text}")
    for note in one.notes:
        out.print(f"  {note}")


def _print_counts(found: list[Agreement]) -> None:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.answer] = counts.get(one.answer, 0) + 1
    print_table(("answer", "kernels"), [(answer, str(count)) for answer, count in sorted(counts.items())])
