"""`warpsmith audit`: attacks and honest controls, the stage that ends each, and the two error rates."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith import app
from warpsmith.app import AuditEnded, AuditRequest
from warpsmith.cli._options import Device, Gpu, Jobs, Json, Trust, Without, read_defences
from warpsmith.cli._output import console, print_json
from warpsmith.cli._verdict import EXIT
from warpsmith.evaluation import CorpusOutcome, EvaluationConfig
from warpsmith.records import Verdict


def command(
    corpus: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files; the corpus of the checkout by default.")
    ] = None,
    without: Without = "",
    also_without: Annotated[
        str, typer.Option(help="Then a second audit leaves these out too, for the files that they stopped.")
    ] = "",
    device: Device = "auto",
    gpu: Gpu = "H200",
    trust: Trust = False,
    jobs: Jobs = os.cpu_count() or 1,
    out: Annotated[
        Path | None, typer.Option(help="Append each outcome to this file as JSON; outcomes in it are not tried again.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Try a corpus; exit code 1 if an attack succeeds or a control fails, 3 if files could not be tried."""
    config = EvaluationConfig(device=device, gpu=gpu, trust=trust, without=read_defences(without))
    request = AuditRequest(corpus or (), config, read_defences(also_without), jobs, out)
    found = app.audit(request, app.ignore if as_json else _show)
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    # A wrong outcome counts more than a file that could not be tried.
    if not all(one.clean for one in found):
        return 1
    return EXIT[Verdict.FAULT] if any(one.faulty for one in found) else 0


def _show(event: Any) -> None:
    if isinstance(event, CorpusOutcome):
        _print(event)
    elif isinstance(event, AuditEnded):
        _print_end(event)


def _print_end(event: AuditEnded) -> None:
    if event.known:
        console().print(f"{event.known} outcomes were known and not tried again")
    for one in event.audit.skipped:
        console().print(f"not run: {Path(one.path).name} needs --device {one.device}")
    without = event.config.without
    head = f"without {', '.join(sorted(without))}: " if without else ""
    console().print(f"{head}{event.audit.summary()}", style="bold")


def _print(outcome: CorpusOutcome) -> None:
    kind = "attack" if outcome.specimen.attack else "control"
    caught = f"{outcome.stage} {outcome.reason}" if outcome.reason else outcome.verdict
    mark = "WRONG" if outcome.wrong else "as expected" if outcome.expected else "for another reason"
    # A pass of an attack that is no faster than its honest kernel has no effect.
    if outcome.specimen.attack and outcome.verdict is Verdict.PASS and not outcome.wrong:
        mark = "gains nothing"
    console().print(f"{kind:<8}{Path(outcome.specimen.path).stem:<36}{caught:<28}{mark}")
    if outcome.wrong and outcome.detail:
        console().print(f"        {outcome.detail}")
