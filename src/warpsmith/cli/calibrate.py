"""`warpsmith calibrate`: how often each verifier is right on a labelled corpus, and its weight."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith import app
from warpsmith.app import CalibrationRequest, KernelsVerified
from warpsmith.cli._options import Jobs, Json
from warpsmith.cli._output import console, print_json, print_table

if TYPE_CHECKING:
    from warpsmith.evaluation.verify import Calibration, Matrix

SHOWN = 40
PAPER = {"review_compile": 0.82, "review_memory": 0.80, "review_numerical": 0.73}  # arXiv:2509.14279, its own kernels
SAVE_HELP = "Write the weights to this file. `verifiers.json` in the data folder is what later searches read."


def command(
    corpus: Annotated[Path | None, typer.Option(help="A folder with requests.jsonl and truth.jsonl.")] = None,
    out: Annotated[Path | None, typer.Option(help="Append findings to this file; kernels in it are skipped.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Only the first N kernels; all kernels by default.")] = 0,
    save: Annotated[Path | None, typer.Option(help=SAVE_HELP)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no weights, even with --save.")] = False,
    jobs: Jobs = os.cpu_count() or 1,
    as_json: Json = False,
) -> int:
    """Run the verifiers over a labelled corpus; exit code 1 if one of them stops a correct kernel."""
    path = None if dry_run else save
    found = app.calibrate(CalibrationRequest(corpus, out, sample, path, jobs), app.ignore if as_json else _show)
    if as_json:
        print_json(found)
    else:
        _print(found, path)
    return 1 if found.together.alarms else 0


def _show(event: Any) -> None:
    if isinstance(event, KernelsVerified) and (event.done % 10 == 0 or event.done == event.total):
        console().print(f"{event.done} of {event.total}")


def _print(found: "Calibration", path: Path | None) -> None:
    out = console()
    out.print(
        f"{found.wrong} wrong kernels, {found.right} right ones, {found.survivors} mutants that the GPU passed",
        style="bold",
    )
    rows = [_row(one) for one in (*found.verifiers, found.without_model, found.together)]
    columns = (
        "verifier",
        "caught",
        "missed",
        "false alarms",
        "accuracy",
        "survivors",
        "s a kernel",
        "$",
        "GPU s saved",
    )
    print_table(columns, rows)
    _print_operators(found)
    for one in found.surprises[:SHOWN]:
        what = "slipped through" if one.label == "wrong" else f"a {one.label} one was stopped"
        out.print(f"  {what}: {one.origin}; {one.truth or one.said}")
    if len(found.surprises) > SHOWN:
        out.print(f"  and {len(found.surprises) - SHOWN} more; --json has them all")
    chance = 1 / (1 + math.exp(-found.weights.stop))
    kept = f"; weights written to {path}" if path else ""
    out.print(f"stop from {chance:.0%} on{kept}")


def _row(one: "Matrix") -> tuple[str, ...]:
    seen = one.seen + one.survivors
    return (
        one.verifier,
        str(one.caught),
        str(one.missed),
        f"{one.alarms} of {one.alarms + one.cleared}",
        f"{one.accuracy:.2f}" + (f" (paper {PAPER[one.verifier]:.2f})" if one.verifier in PAPER else ""),
        str(one.survivors),
        f"{one.seconds / seen:.2f}" if seen and one.seconds else "-",
        f"{one.usd:.2f}" if one.usd else "-",
        f"{one.gpu_saved_s:.0f}",
    )


def _print_operators(found: "Calibration") -> None:
    rows = [
        (name, f"{one.caught} of {one.caught + one.missed}", str(one.survivors))
        for name, one in found.operators.items()
    ]
    print_table(("operator", "caught", "survivors stopped"), rows)
