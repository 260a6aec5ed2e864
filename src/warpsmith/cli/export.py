"""`warpsmith export`: a kernel that passed, or the kernels of both directions, as an installable Python package."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import RECORDS, best_entry, kernel_candidate, read_records
from warpsmith.base import UsageError, shell_line, write_atomic
from warpsmith.cli._options import Json, Macros, Unproven, read_macros
from warpsmith.cli._output import console, print_error, print_json
from warpsmith.records import Direction, Group, Model, Record, Trial, Verdict, score, unproven_reason

if TYPE_CHECKING:
    from warpsmith.archive import ArchivedEvaluation
    from warpsmith.report.export import Package

AGAINST = (Verdict.FAIL, Verdict.QUARANTINE)  # what is said last counts
EXAMPLE_SEED = 1
TASK_HELP = "The task as eval takes it; by default the run's, or the name of the kernel's folder."


class Exported(Model):
    """What was written: the folder, the package's name, the directions it has and its files."""

    folder: str
    name: str
    directions: tuple[Direction, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A record and the task as a user would write it."""

    record: Record
    target: str


def command(
    subjects: Annotated[list[str], typer.Argument(help="A run, a .cu file or a record; a second for the other pass.")],
    to: Annotated[Path, typer.Option(help="The folder to write; new or empty.")],
    name: Annotated[str, typer.Option(help="The package's name; TASK_kernel by default.")] = "",
    task: Annotated[str, typer.Option(help=TASK_HELP)] = "",
    macro: Macros = None,
    unproven: Unproven = False,
    as_json: Json = False,
) -> int:
    """Write the package and say how to install and test it; exit code 4 for a run that has no right kernel."""
    _check_folder(to)
    found = [_found(subject, task, read_macros(macro or []), unproven) for subject in subjects]
    if None in found:
        message = f"Run {subjects[found.index(None)]} has no kernel that was right and timed."
        return print_error("none", message, 4, as_json)
    package = _package([one for one in found if one is not None], name, unproven)
    files = _write(package, to)
    said = Exported(folder=str(to.absolute()), name=package.name, directions=tuple(package.records), files=files)
    if as_json:
        print_json(said)
    else:
        _print(said)
    return 0


def _check_folder(to: Path) -> None:
    if to.is_dir() and any(to.iterdir()):
        raise UsageError(f"{to} is not empty. Name a new folder with --to.")
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is a file. Name a new folder with --to.")


def _found(subject: str, task: str, macros: dict[str, str], allow_unproven: bool) -> Found | None:
    """What a word means: a kernel's file, a record's file, or a run."""
    from warpsmith.languages import suffixes

    path = Path(subject)
    if path.suffix in suffixes():
        return _of_kernel(path, task, macros)
    if path.suffix in RECORDS:
        records = read_records(path)
        if len(records) != 1:
            raise UsageError(f"{path} holds {len(records)} records; a package is made of one a direction.")
        return Found(records[0], task or records[0].candidate.task)
    from warpsmith.archive import Archive

    with Archive.open() as archive:
        run, entry = archive.run(subject), best_entry(archive, subject, allow_unproven)
    return None if entry is None else Found(entry.record, task or run.target)


def _of_kernel(path: Path, task: str, macros: dict[str, str]) -> Found:
    """The kernel's record in the archive: the latest that passed, full evaluations and measured ones first."""
    from warpsmith.archive import Archive

    target, candidate = kernel_candidate(path, task, macros)
    with Archive.open() as archive:
        known = [entry for entry in archive.records(candidate=candidate.id) if not entry.record.blameless]
    last = max((at for at, entry in enumerate(known) if entry.verdict in AGAINST), default=-1)
    entries = [entry for entry in known[last + 1 :] if entry.verdict is Verdict.PASS]
    if not entries:
        makes = shell_line("warpsmith", "eval", target, path)
        raise UsageError(
            f"The archive has no record in which {path} passed. {makes} makes one; "
            "-D gives the values it was evaluated with."
        )

    def rank(entry: "ArchivedEvaluation") -> tuple[bool, bool, int]:
        return not unproven_reason(entry.record), getattr(score(entry.record), "kind", "") == "measured", entry.number

    return Found(max(entries, key=rank).record, target)


def _package(found: list[Found], name: str, allow_unproven: bool) -> "Package":
    from warpsmith.report.export import Package, default_name
    from warpsmith.tasks.formats import find
    from warpsmith.tasks.host import open_task

    records = {one.record.candidate.direction: one.record for one in found}
    if len(records) != len(found):
        raise UsageError(f"{len(found)} kernels of one direction; a package has one kernel a direction.")
    target = found[0].target
    with open_task(target) as opened:
        task = opened.describe()
        trials = [Trial(case=case, seed=EXAMPLE_SEED) for case in task.group_or_first(Group.SMOKE)]
        drawn = {trial.case.name: opened.problem(Direction.FORWARD, trial).arguments for trial in trials}
    return Package(
        name=name or default_name(task.name),
        task=task,
        records={direction: records[direction] for direction in Direction if direction in records},
        arguments=drawn,
        thing=find(target).name,
        allow_unproven=allow_unproven,
    )


def _write(package: "Package", to: Path) -> tuple[str, ...]:
    from warpsmith.report.export import package_files

    files = package_files(package)
    for path, text in files.items():
        write_atomic(to / path, text)
    return tuple(files)


def _print(said: Exported) -> None:
    console().print(f"{said.folder}: {said.name}, {' and '.join(said.directions)}", style="bold")
    for path in said.files:
        console().print(f"  {path}")
    console().print(shell_line("pip", "install", said.folder))
    console().print(shell_line("pytest", f"{said.folder}/tests"))
