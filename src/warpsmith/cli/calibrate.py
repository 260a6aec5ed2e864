"""`warpsmith calibrate`: how often each verifier is right on a labelled corpus, what it saves, and its weight."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import warpsmith
from warpsmith.base import UsageError, WarpsmithError, check_writable, write_atomic
from warpsmith.cli._options import Jobs, Json
from warpsmith.cli._output import console, print_json, print_table

if TYPE_CHECKING:
    from warpsmith.evaluation.verify import Calibration, CalibrationSample, LabelledKernel, Matrix, Verified

SEED = 20250914  # of the calls on the virtual GPU: a calibration comes out the same every time
SHOWN = 40
PAPER = {"review_compile": 0.82, "review_memory": 0.80, "review_numerical": 0.73}  # arXiv:2509.14279, its own kernels


def command(
    corpus: Annotated[Path | None, typer.Option(help="A folder with requests.jsonl and truth.jsonl.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Append what verifiers say to this file; go on where it ends.")
    ] = None,
    sample: Annotated[int, typer.Option(min=0, help="Only the first N kernels; all of them by default.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Keep the weights in this file and not in the data folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, and keep no weights.")] = False,
    jobs: Jobs = os.cpu_count() or 1,
    as_json: Json = False,
) -> int:
    """Run the verifiers over a labelled corpus; exit code 1 when one of them stops a right kernel."""
    from warpsmith.evaluation.verify import read_specimens, shipped_weights, weights_path
    from warpsmith.evaluation.verify.calibrate import calibrate

    folder = corpus or shipped()
    specimens = read_specimens(folder)[: sample or None]
    if not specimens:
        raise UsageError(f"{folder} has no kernel with a verdict.")
    path = save or weights_path()
    if not dry_run:
        check_writable(path)
    trials = [*_trials(folder, specimens, out, jobs, as_json), *_attacks(folder)]
    found = calibrate(trials, f"{len(specimens)} kernels of {folder.name}", shipped_weights())
    if not dry_run:
        write_atomic(path, found.weights.model_dump_json(indent=1).encode() + b"\n")
    if as_json:
        print_json(found)
    else:
        _print(found, None if dry_run else path)
    return 1 if found.together.alarms else 0


def shipped() -> Path:
    """The corpus of a checkout."""
    folder = Path(warpsmith.__file__).parents[2] / "corpus"
    if not folder.is_dir():
        raise UsageError("The corpus is part of the source checkout and not of the package. Name one with --corpus.")
    return folder


def _trials(
    folder: Path, specimens: "Sequence[LabelledKernel]", out: Path | None, jobs: int, quiet: bool
) -> "Iterator[CalibrationSample]":
    from warpsmith.evaluation import Results
    from warpsmith.evaluation.verify import CalibrationSample, read_replies, reviewed

    results = Results(out) if out else None
    replies, known = read_replies(folder), _known(results.lines) if results else {}
    waiting = [one for one in specimens if one.candidate.id not in known]
    for number, (specimen, verified) in enumerate(_looked(waiting, jobs), 1):
        known[specimen.candidate.id] = verified
        if results is not None:
            results.add(verified.text())
        if not quiet and (number % 10 == 0 or number == len(waiting)):
            console().print(f"{number} of {len(waiting)}")
    for specimen in specimens:
        name = specimen.candidate.id
        yield CalibrationSample(specimen, reviewed(known[name], replies.get(name, ())))


def _looked(specimens: "Sequence[LabelledKernel]", jobs: int) -> "Iterator[tuple[LabelledKernel, Verified]]":
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        yield from zip(specimens, pool.map(_look, specimens), strict=True)


def _look(specimen: "LabelledKernel") -> "Verified":
    from warpsmith.evaluation.verify import verify
    from warpsmith.tasks.host import open_task

    candidate = specimen.candidate
    try:
        with open_task(candidate.task) as opened:
            return verify(candidate, opened, SEED)
    except WarpsmithError as error:
        raise type(error)(f"{candidate.origin}: {error}") from None


def _attacks(folder: Path) -> "Iterator[CalibrationSample]":
    """The attacks that reviewers answered on; nobody else is asked about them here (`warpsmith audit` does that)."""
    from warpsmith.evaluation.verify import CalibrationSample, read_attacks, read_replies, reviewed, unseen

    replies = read_replies(folder)
    for specimen in read_attacks(folder):
        name = specimen.candidate.id
        if name in replies:
            yield CalibrationSample(specimen, reviewed(unseen(name), replies[name]))


def _known(lines: Sequence[str]) -> "dict[str, Verified]":
    """What was said before; a kernel whose line cannot be read is looked at again."""
    from warpsmith.evaluation.verify import Verified

    found = (Verified.read(line) for line in lines)
    return {one.candidate: one for one in found if isinstance(one, Verified)}


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
    kept = f"; kept in {path}" if path else ""
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
