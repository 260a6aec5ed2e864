"""The archive's runs: names, locks, summaries, best kernels."""

import re
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from warpsmith.archive import Archive, ArchivedEvaluation, RunStatus, RunSummary, describe_run_line, summarize
from warpsmith.base import Home, UsageError, write_atomic
from warpsmith.evaluation import is_measured
from warpsmith.languages import find_language
from warpsmith.records import (
    NAME,
    Model,
    Record,
    Run,
    RunState,
    Score,
    mark_name,
    mark_source,
    require_proven,
    unproven_reason,
)

PLACEHOLDER = "KERNEL.cu"  # stands in a command for the file that the caller writes


class Best(Model):
    """The best kernel of a run: its file, its score, the command that evaluates it again, and its record."""

    path: str  # empty if no file was written
    score: Score | None
    command: str
    record: Record
    unproven: str = ""  # why the kernel was not evaluated fully; empty if it was

    @property
    def source(self) -> str:
        """The kernel's text; its first line says so if it is unproven."""
        return mark_source(self.record.candidate.source, self.unproven)


def list_runs() -> list[RunStatus]:
    """Return the runs of the archive, the latest first."""
    with Archive.open() as archive:
        lines = [describe_run_line(archive, run) for run in archive.runs()]
        return [line.model_copy(update={"stands": run_state(archive, line.run)}) for line in lines]


def show_run(name: str) -> RunSummary:
    """Return the summary of a run."""
    with Archive.open() as archive:
        summary = summarize(archive, name)
        return summary.model_copy(update={"stands": run_state(archive, summary.run)})


def run_state(archive: Archive, run: Run) -> str:
    """Return the state of a run. A run whose lock is held is running, whatever its row says."""
    # A killed run's row still says `running`; only the lock shows whether a process writes it.
    return str(RunState.RUNNING) if archive.is_held(run.name) else run.stands


def lock_run(archive: Archive, name: str, command: str, until: ExitStack) -> None:
    """Lock a run until the stack closes. Raise UsageError for an invalid name."""
    # The name becomes part of lock files and folders.
    if not re.fullmatch(NAME, name):
        raise UsageError(f"Run name {name!r} cannot be a file's name: up to 100 letters, digits, '.', '_' and '-'.")
    until.enter_context(archive.hold(name, f"warpsmith {command}"))


def lock_new_run(archive: Archive, name: str, subject: str, until: ExitStack) -> str:
    """Lock a new run; return the given name, or a free one."""
    if name:
        lock_run(archive, name, "optimize", until)
        return name
    # Seconds in the name order the runs; a number follows where two runs begin in the same second.
    base = f"{_file_name(subject)}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    for number in count(1):
        name, trial = f"{base}-{number}" if number > 1 else base, ExitStack()
        with suppress(UsageError), trial:  # another process holds the name
            lock_run(archive, name, "optimize", trial)
            if not is_known(archive, name):
                # pop_all moves the lock to the caller's stack, so leaving `trial` does not release it.
                until.enter_context(trial.pop_all())
                break
    return name


def is_known(archive: Archive, name: str) -> bool:
    """Return whether the archive has the run."""
    return name in {run.name for run in archive.runs()}


def _file_name(text: str) -> str:
    """Return the text as part of a run's name."""
    safe = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_.-" else "-" for letter in text)
    # 60 characters leave room for the time and a number within the 100 of a run's name.
    return safe.strip("_.-")[-60:].strip("_.-") or "task"


def best(run: str, out: Path | None = None, *, allow_unproven: bool = False, is_written: bool = True) -> Best | None:
    """Return a run's best kernel and write its file; None without a timed one."""
    with Archive.open() as archive:
        found, entry = archive.run(run), best_entry(archive, run, allow_unproven)
    if entry is None:
        return None
    path = write_kernel(run, entry.record, out) if is_written else Path(PLACEHOLDER)
    return Best(
        path=str(path) if is_written else "",
        score=entry.score,
        command=found.eval_command(entry.record, str(path)),
        record=entry.record,
        unproven=unproven_reason(entry.record),
    )


def best_entry(archive: Archive, run: str, allow_unproven: bool) -> ArchivedEvaluation | None:
    """Return a run's best kernel. Raise UnprovenError without a full evaluation."""
    entry = archive.best(run)
    if entry is not None and not allow_unproven:
        command = _final_command(archive.run(run), entry.record)
        require_proven(entry.record, f"The best kernel of run {run}", f"{command} evaluates it fully")
    return entry


def _final_command(run: Run, record: Record) -> str:
    """Return the command that evaluates the best kernel of a run fully."""
    settings = run.settings
    # Such a run is not evaluated finally by `tell`, so the user evaluates the file.
    if run.waits and (settings.get("elsewhere") == "True" or "record" in settings or "replay" in settings):
        claim = " --claim" if is_measured(run.device) else ""
        return f"`{run.eval_command(record, PLACEHOLDER)}{claim}` of the file that --unproven writes"
    return f"`warpsmith tell {run.name}`" if run.waits else f"`{run.go_on}`"


def write_kernel(run: str, record: Record, out: Path | None = None) -> Path:
    """Write a kernel of a run, in the data folder unless a path is given, and return its path."""
    why, language = unproven_reason(record), find_language(record.candidate.language)
    path = out or Home.locate().data / "runs" / run / f"best{language.suffix}"
    path = path.with_name(f"{mark_name(path.stem, why)}{path.suffix}")
    write_atomic(path, mark_source(record.candidate.source, why, language.comment))
    return path.absolute()
