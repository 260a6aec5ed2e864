"""Passed kernels as an installable Python package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.app.kernels import kernel_candidate
from warpsmith.app.results import RECORDS, read_records
from warpsmith.app.runs import best_entry
from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.base import UsageError, shell_line, write_atomic
from warpsmith.languages import suffixes
from warpsmith.records import Direction, Group, Model, Record, Trial, Verdict, score, unproven_reason
from warpsmith.report.export import Package, default_name, package_files
from warpsmith.tasks.formats import find
from warpsmith.tasks.host import open_task

REFUTES = (Verdict.FAIL, Verdict.QUARANTINE)  # a later one of these outweighs an earlier pass
EXAMPLE_SEED = 1


class Exported(Model):
    """The written package: its folder, name, directions and files."""

    folder: str
    name: str
    directions: tuple[Direction, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class ExportRequest:
    """A run, a kernel file or a record for each direction, and the folder to write."""

    subjects: Sequence[str]
    to: Path
    name: str = ""
    task: str = ""
    macros: Mapping[str, str] = field(default_factory=dict)
    allow_unproven: bool = False


@dataclass(frozen=True)
class PassedKernel:
    """A passed record with the user's task name."""

    record: Record
    target: str


def export(request: ExportRequest) -> Exported | str:
    """Write the package, or return a run without kernel."""
    # Checked before the evaluation records are read, so that a wrong folder costs nothing.
    _check_folder(request.to)
    found = []
    for subject in request.subjects:
        kernel = _find_kernel(subject, request)
        if kernel is None:
            return subject
        found.append(kernel)
    package = _make_package(found, request)
    files = package_files(package)
    for path, text in files.items():
        write_atomic(request.to / path, text)
    return Exported(
        folder=str(request.to.absolute()), name=package.name, directions=tuple(package.records), files=tuple(files)
    )


def _check_folder(to: Path) -> None:
    if to.is_dir() and any(to.iterdir()):
        raise UsageError(f"{to} is not empty. Name a new folder with --to.")
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is a file. Name a new folder with --to.")


def _find_kernel(subject: str, request: ExportRequest) -> PassedKernel | None:
    """Return the kernel of a file, a record or a run; None for a run without any."""
    path = Path(subject)
    if path.suffix in suffixes():
        return _of_file(path, request)
    if path.suffix in RECORDS:
        records = read_records(path)
        if len(records) != 1:
            raise UsageError(f"{path} holds {len(records)} records; a package is made of one a direction.")
        return PassedKernel(records[0], request.task or records[0].candidate.task)
    with Archive.open() as archive:
        run, entry = archive.run(subject), best_entry(archive, subject, request.allow_unproven)
    return None if entry is None else PassedKernel(entry.record, request.task or run.target)


def _of_file(path: Path, request: ExportRequest) -> PassedKernel:
    """Return the kernel's best passed record since its last failure."""
    target, candidate = kernel_candidate(path, request.task, request.macros)
    with Archive.open() as archive:
        known = [entry for entry in archive.records(candidate=candidate.id) if not entry.record.blameless]
    # A later failure refutes every earlier pass, so only records after the last failure count.
    last = max((at for at, entry in enumerate(known) if entry.verdict in REFUTES), default=-1)
    entries = [entry for entry in known[last + 1 :] if entry.verdict is Verdict.PASS]
    if not entries:
        command = shell_line("warpsmith", "eval", target, path)
        raise UsageError(
            f"The archive has no record in which {path} passed. {command} makes one; "
            "-D gives the values it was evaluated with."
        )
    return PassedKernel(max(entries, key=_rank).record, target)


def _rank(entry: ArchivedEvaluation) -> tuple[bool, bool, int]:
    is_timed = getattr(score(entry.record), "kind", "") == "measured"
    # Full evaluations first, then measured ones, then the newest.
    return not unproven_reason(entry.record), is_timed, entry.number


def _make_package(found: Sequence[PassedKernel], request: ExportRequest) -> Package:
    records = {one.record.candidate.direction: one.record for one in found}
    if len(records) != len(found):
        raise UsageError(f"{len(found)} kernels of one direction; a package has one kernel a direction.")
    target = found[0].target
    with open_task(target) as opened:
        # Example inputs are part of the package's own test, so their seed is fixed.
        task = opened.describe()
        trials = [Trial(case=case, seed=EXAMPLE_SEED) for case in task.group_or_first(Group.SMOKE)]
        drawn = {trial.case.name: opened.problem(Direction.FORWARD, trial).arguments for trial in trials}
    return Package(
        name=request.name or default_name(task.name),
        task=task,
        records={direction: records[direction] for direction in Direction if direction in records},
        arguments=drawn,
        thing=find(target).name,
        allow_unproven=request.allow_unproven,
    )
