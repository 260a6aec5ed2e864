"""`warpsmith audit`: attacks and honest controls, what catches each, and the two rates."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import warpsmith
from warpsmith.base import UsageError
from warpsmith.cli._options import Device, Gpu, Jobs, Json, Trust, Without, read_defences
from warpsmith.cli._output import console, print_json
from warpsmith.cli._verdict import EXIT
from warpsmith.records import Verdict

if TYPE_CHECKING:
    from warpsmith.evaluation import Audit, CorpusFile, CorpusOutcome, EvaluationConfig

GPU_CALL_S, GPU_CASES = 5.0, 2
SHIPPED = ("tests/exploits", "tests/honest")


def command(
    corpus: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files; the shipped corpus by default.")
    ] = None,
    without: Without = "",
    also_without: Annotated[
        str, typer.Option(help="Then also without these, in the same run: what they stopped is tried again.")
    ] = "",
    device: Device = "auto",
    gpu: Gpu = "H200",
    trust: Trust = False,
    jobs: Jobs = os.cpu_count() or 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Append each outcome to this file, a line of JSON each; what it holds is not tried again."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Try a corpus; exit code 1 when an attack succeeds or a control fails, 3 when some could not be tried."""
    from warpsmith.evaluation import EvaluationConfig, is_measured, read_corpus, settle_device

    # Eager alone: an attack is held against its own honest kernel, and compiling torch's modes would take an hour.
    # On a GPU a call takes milliseconds, and the corpus has many that hang. A small case and a usual one: the honest
    # kernel inside an attack is slow on purpose, and takes most of a second for the largest.
    here = settle_device(device)
    chosen = EvaluationConfig(
        device=here,
        gpu=gpu,
        trust=trust,
        without=read_defences(without),
        baselines=("eager",),
    )
    if is_measured(here):
        chosen = chosen.replace(call_s=GPU_CALL_S, most_cases=GPU_CASES)
    less = chosen.replace(without=chosen.without | read_defences(also_without))
    found = _audits(
        read_corpus(corpus or shipped()), [chosen] if less == chosen else [chosen, less], jobs, out, as_json
    )
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    if not all(one.clean for one in found):
        return 1
    return EXIT[Verdict.FAULT] if any(one.faulty for one in found) else 0


def _audits(
    specimens: "list[CorpusFile]", ways: "Sequence[EvaluationConfig]", jobs: int, out: Path | None, quiet: bool
) -> "list[Audit]":
    """An audit for each way to try the corpus; what an earlier way has settled is not tried again."""
    from warpsmith.evaluation import Results, audit, read_outcomes, untouched

    results = Results(out) if out else None
    kept = read_outcomes(results.lines) if results else {}

    def tell(outcome: "CorpusOutcome") -> None:
        if results is not None:
            results.add(outcome.text())
        if not quiet:
            _print(outcome)

    found: list[Audit] = []
    for way in ways:
        same = untouched(found[-1], way) if found else {}
        for key in same.keys() - kept.keys():
            if results is not None:
                results.add(same[key].text())
        kept |= same
        found.append(audit(specimens, way, jobs, tell, kept))
        if not quiet:
            _summarize(found[-1], way, sum(one.key in kept for one in found[-1].outcomes))
    return found


def _summarize(found: "Audit", way: "EvaluationConfig", known: int) -> None:
    if known:
        console().print(f"{known} outcomes were known and not tried again")
    for one in found.skipped:
        console().print(f"not run: {Path(one.path).name} needs --device {one.device}")
    named = f"without {', '.join(sorted(way.without))}: " if way.without else ""
    console().print(f"{named}{found.summary()}", style="bold")


def shipped() -> list[Path]:
    """The corpus of a checkout."""
    root = Path(warpsmith.__file__).parents[2]
    found = [root / name for name in SHIPPED if (root / name).is_dir()]
    if not found:
        raise UsageError("The corpus is part of the source checkout and not of the package. Name a folder of your own.")
    return found


def _print(outcome: "CorpusOutcome") -> None:
    kind = "attack" if outcome.specimen.attack else "control"
    caught = f"{outcome.stage} {outcome.reason}" if outcome.reason else outcome.verdict
    mark = "WRONG" if outcome.wrong else "as expected" if outcome.expected else "for another reason"
    if outcome.specimen.attack and outcome.verdict is Verdict.PASS and not outcome.wrong:
        mark = "gains nothing"
    console().print(f"{kind:<8}{Path(outcome.specimen.path).stem:<36}{caught:<28}{mark}")
    if outcome.wrong and outcome.detail:
        console().print(f"        {outcome.detail}")
