"""`warpsmith regrade`: published records or kernels evaluated again here, and whether the two agree."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import RECORDS, kernel_candidate, read_lines, read_records, records_below, results_for
from warpsmith.base import HarnessError, UsageError
from warpsmith.cli._archive import keep
from warpsmith.cli._options import Device, Jobs, Json, Macros, Trust, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.records import Candidate, Record, Verdict

if TYPE_CHECKING:
    from warpsmith.evaluation import EvaluationConfig
    from warpsmith.evaluation.processes import Grade
    from warpsmith.report import Agreement

WITHIN_HELP = "The share by which times of the same hardware may differ."
AGAINST_HELP = "A folder of records to hold kernels against; docs/results beside the folder of kernels by default."
QUICK_HELP = "On a GPU, verdicts and the kernels' own times as a search measures them, and of torch eager alone."
SEED_HELP = "Draw the same inputs and held-out shapes again instead of new ones."


@dataclass(frozen=True)
class Published:
    """One kernel that somebody published: where it stands, and its record where there is one."""

    where: str
    target: str
    candidate: Candidate
    record: Record | None = None
    note: str = ""


@dataclass(frozen=True)
class Odd:
    """A line among records that is none: where it stands and what it says."""

    where: str
    why: str


@dataclass(frozen=True)
class RegradeRequest:
    """What the user says of all files: their task, values of tunables, and where records lie; how those are read."""

    task: str
    macros: dict[str, str]
    against: Path | None
    read: Callable[[Path], tuple[Record, ...]]


@dataclass(frozen=True)
class Way:
    """How to evaluate again."""

    device: str
    same_seed: bool
    trust: bool
    within: float
    quick: bool


def command(
    files: Annotated[list[Path], typer.Argument(help="Records (.json, .jsonl), kernels (.cu), or folders of them.")],
    against: Annotated[Path | None, typer.Option(help=AGAINST_HELP)] = None,
    task: Annotated[str, typer.Option(help="The task as eval takes it, where the files do not say.")] = "",
    macro: Macros = None,
    device: Device = "auto",
    same_seed: Annotated[bool, typer.Option("--same-seed", help=SEED_HELP)] = False,
    quick: Annotated[bool, typer.Option("--quick", help=QUICK_HELP)] = False,
    within: Annotated[float, typer.Option(min=0, help=WITHIN_HELP)] = 0.1,
    trust: Trust = False,
    jobs: Jobs = os.cpu_count() or 1,
    archive: Annotated[bool, typer.Option(help="Keep the new records in the archive.")] = True,
    as_json: Json = False,
) -> int:
    """Evaluate again and compare; exit code 0 all agree, 1 one disagrees, 3 our fault, 4 one has no verdict."""
    asked = RegradeRequest(task, read_macros(macro or []), against, cache(records_below))
    read = _published if len(files) == 1 else _readable
    published = [one for path in files for one in read(path, asked)]
    found = []
    for one in _again(published, Way(device, same_seed, trust, within, quick), jobs):
        found.append(one)
        if not as_json:
            _print(one)
    if archive:
        keep([one.record for one in found if one.record is not None])
    if as_json:
        print_json(found)
    else:
        _print_count(found)
    return _code(found)


def _published(path: Path, asked: RegradeRequest) -> Iterator[Published | Odd]:
    """The kernels of a file or of all files below a folder; a folder of kernels and records is one of kernels."""
    from warpsmith.languages import suffixes

    if path.is_dir():
        kernels = sorted(one for suffix in suffixes() for one in path.rglob(f"*{suffix}"))
        below = kernels or [one for suffix in RECORDS for one in sorted(path.rglob(f"*{suffix}"))]
        if not below:
            raise UsageError(f"No kernel (.cu) and no record (.json, .jsonl) below {path}.")
        for one in below:
            yield from _readable(one, asked)
    elif path.suffix in suffixes():
        yield _kernel(path, asked)
    else:
        lines = read_lines(path)
        for number, found in lines:
            where = f"{path}:{number}" if len(lines) > 1 else str(path)
            if isinstance(found, Record):
                yield Published(where, asked.task or found.candidate.task, found.candidate, found)
            else:
                yield Odd(where, found)


def _readable(path: Path, asked: RegradeRequest) -> Iterator[Published | Odd]:
    """The kernels of one path of several; a file that holds none costs the others nothing."""
    try:
        yield from _published(path, asked)
    except UsageError as error:
        if not path.exists():
            raise
        yield Odd(str(path), str(error))


def _kernel(path: Path, asked: RegradeRequest) -> Published:
    """A kernel's file with its record: `forward.json` beside `forward.cu`, else the one of its text in a folder."""
    beside = path.with_suffix(".json")
    if beside.is_file() and not asked.macros:
        (record,) = read_records(beside)[:1]
        target, candidate = kernel_candidate(path, asked.task, record.candidate.macros)
        if candidate.id != record.candidate.id:
            raise UsageError(f"{beside} is the record of another kernel than {path}: the texts differ.")
        return Published(str(path), target, candidate, record)
    target, candidate = kernel_candidate(path, asked.task, asked.macros)
    results = results_for(path, asked.against)
    if results is None:
        return Published(str(path), target, candidate)
    return _known(Published(str(path), target, candidate), results, asked)


def _known(one: Published, results: Path, asked: RegradeRequest) -> Published:
    """The kernel with its record of a folder, a claim before others; tunables as recorded unless named."""
    pairs = [found for found in asked.read(results) if _same_work(found.candidate, one.candidate)]
    same = [found for found in pairs if found.candidate.source == one.candidate.source]
    if asked.macros:
        same = [found for found in same if found.candidate.id == one.candidate.id]
    if same:
        record = max(same, key=lambda found: found.options.effort == "thorough")
        return replace(one, candidate=record.candidate, record=record)
    return replace(one, note=f"{results} has a record of another text for this task and direction") if pairs else one


def _same_work(one: Candidate, other: Candidate) -> bool:
    return (one.task, one.direction) == (other.task, other.direction)


def _again(published: Sequence[Published | Odd], way: Way, jobs: int) -> "Iterator[Agreement]":
    """Each in order, as soon as it and those before are done."""
    from warpsmith.evaluation.processes import pool_of_judges

    with pool_of_judges(_choices(None, way), min(jobs, len(published))) as (threads, grade):
        for one in [threads.submit(_regraded, one, way, grade) for one in published]:
            yield one.result()


def _regraded(one: Published | Odd, way: Way, grade: "Grade") -> "Agreement":
    """What a second evaluation says; a task that is not known here costs the others nothing."""
    from warpsmith.report import compare_records, without_verdict

    if isinstance(one, Odd):
        return without_verdict(one.where, None, one.why)
    seeds = one.record.options.seeds if one.record and way.same_seed else ()
    asked = one.candidate.model_copy(update={"task": one.target})
    try:
        choices = _choices(one.record, way)
        if one.record and seeds:
            choices = choices.replace(scheme=one.record.options.scheme)
        after = grade(asked, choices, seeds[0] if seeds else None)
    except UsageError as error:
        return without_verdict(one.where, one.record, f"{error} --task names it where it has another name here.")
    except HarnessError as error:  # our fault in one evaluation; the others go on
        return without_verdict(one.where, one.record, str(error)).model_copy(update={"after": Verdict.FAULT})
    found = compare_records(one.where, one.record, after, way.within)
    return found.model_copy(update={"notes": (*found.notes, one.note)}) if one.note else found


def _choices(record: Record | None, way: Way) -> "EvaluationConfig":
    """The published choices where this machine has that device; what was left out then is not left out now."""
    from warpsmith.evaluation import EvaluationConfig, settle_device

    device = settle_device(way.device)
    modes = ("eager",) if way.quick and device == "cuda" else ()
    if record is None or record.options.device != device:
        return EvaluationConfig(device=device, trust=way.trust, baselines=modes)
    options = record.options
    claim = options.effort == "thorough" and device != "vgpu" and not way.quick
    virtual = device == "vgpu" and options.effort != "usual"  # a sketch leaves calls out, a thorough evaluation none
    return EvaluationConfig(
        device=device,
        cases=options.cases,
        gpu=options.gpu,
        trust=way.trust,
        cache="warm" if options.cache == "warm" else "cold",
        baselines=modes or options.baselines,
        effort="thorough" if claim or virtual else "usual",
    )


def _code(found: "list[Agreement]") -> int:
    from warpsmith.report import AgreementAnswer

    answers = {one.answer for one in found}
    if AgreementAnswer.DISAGREES in answers:
        return 1
    if any(one.after is Verdict.FAULT for one in found):
        return 3
    return 4 if AgreementAnswer.NO_VERDICT in answers else 0


def _print(one: "Agreement") -> None:
    out = console()
    times = f"; {one.times.kind} times {one.times.ratio:.3f} of then" if one.times else ""
    what = f"{one.task} {one.direction}, then {one.before}, now {one.after}{times}" if one.task else "no record"
    out.print(f"{one.answer.upper()}  {one.where}: {what}")
    for note in one.notes:
        out.print(f"  {note}")


def _print_count(found: "list[Agreement]") -> None:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.answer] = counts.get(one.answer, 0) + 1
    print_table(("answer", "kernels"), [(answer, str(count)) for answer, count in sorted(counts.items())])
