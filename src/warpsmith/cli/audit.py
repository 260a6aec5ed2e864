"""`warpsmith audit`: attacks and honest controls, what catches each, and the two rates."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import warpsmith
from warpsmith.base import UsageError
from warpsmith.cli._options import Device, Gpu, Jobs, Json, Trust, Without, read_defences
from warpsmith.cli._output import console, print_json
from warpsmith.records import Verdict

if TYPE_CHECKING:
    from warpsmith.bench.corpus import Outcome

GPU_CALL_S, GPU_CASES = 5.0, 2
SHIPPED = ("tests/exploits", "tests/honest")


def command(
    corpus: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files; the shipped corpus by default.")
    ] = None,
    without: Without = "",
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
    """Try a corpus; exit code 1 when an attack succeeds or a control fails."""
    from warpsmith.bench import Choices, settled
    from warpsmith.bench.batch import Results
    from warpsmith.bench.corpus import audit, read_corpus, read_outcomes

    # Eager alone: an attack is held against its own honest kernel, and compiling torch's modes would take an hour.
    # On a GPU a call takes milliseconds, and the corpus has many that hang. A small case and a usual one: the honest
    # kernel inside an attack is slow on purpose, and takes most of a second for the largest.
    here = settled(device)
    chosen = Choices(
        device=here,
        gpu=gpu,
        trust=trust,
        without=read_defences(without),
        baselines=("eager",),
        call_s=GPU_CALL_S if here == "cuda" else Choices.call_s,
        most_cases=GPU_CASES if here == "cuda" else None,
    )
    specimens = read_corpus(corpus or shipped())
    results = Results(out) if out else None

    def tell(outcome: "Outcome") -> None:
        if results is not None:
            results.add(outcome.text())
        if not as_json:
            _print(outcome)

    known = read_outcomes(results.lines) if results else {}
    found = audit(specimens, chosen, jobs, tell, known)
    if as_json:
        print_json(found)
    else:
        kept = sum(one.key in known for one in found.outcomes)
        if kept:
            console().print(f"{kept} outcomes of {out} were not tried again", markup=False)
        for one in found.skipped:
            console().print(f"not run: {Path(one.path).name} needs --device {one.device}", markup=False)
        console().print(found.summary(), style="bold", markup=False)
    return 0 if found.clean else 1


def shipped() -> list[Path]:
    """The corpus of a checkout."""
    root = Path(warpsmith.__file__).parents[2]
    found = [root / name for name in SHIPPED if (root / name).is_dir()]
    if not found:
        raise UsageError("The corpus is part of the source checkout and not of the package. Name a folder of your own.")
    return found


def _print(outcome: "Outcome") -> None:
    kind = "attack" if outcome.specimen.attack else "control"
    caught = f"{outcome.stage} {outcome.reason}" if outcome.reason else outcome.verdict
    mark = "WRONG" if outcome.wrong else "as expected" if outcome.expected else "for another reason"
    if outcome.specimen.attack and outcome.verdict is Verdict.PASS and not outcome.wrong:
        mark = "gains nothing"
    console().print(f"{kind:<8}{Path(outcome.specimen.path).stem:<36}{caught:<28}{mark}", markup=False)
    if outcome.wrong and outcome.detail:
        console().print(f"        {outcome.detail}", markup=False)
