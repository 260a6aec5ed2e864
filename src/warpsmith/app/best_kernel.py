"""The best kernel of a run, written to a file: one that was evaluated fully, or marked as one that was not."""

from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import Home, write_atomic
from warpsmith.languages import find_language
from warpsmith.records import Model, Record, Run, Score, mark_name, mark_source, require_proven, unproven_reason

if TYPE_CHECKING:
    from warpsmith.archive import Archive, ArchivedEvaluation

UNWRITTEN = "KERNEL.cu"  # stands in the command for the file that a caller makes of the text


class Best(Model):
    """The best kernel: where its text was written, its score, how to evaluate it again, and its whole record."""

    path: str  # empty where no file was written
    score: Score | None
    command: str
    record: Record
    unproven: str = ""  # why it is no kernel to rely on

    @property
    def source(self) -> str:
        """The text, with a first line where it is unproven."""
        return mark_source(self.record.candidate.source, self.unproven)


def best(run: str, out: Path | None = None, *, allow_unproven: bool = False, is_written: bool = True) -> Best | None:
    """Return the best kernel of a run, written to a file; None where no kernel was right and timed."""
    from warpsmith.archive import Archive

    with Archive.open() as archive:
        found, entry = archive.run(run), best_entry(archive, run, allow_unproven)
    if entry is None:
        return None
    why = unproven_reason(entry.record)
    path = write_kernel(run, entry.record, out) if is_written else Path(UNWRITTEN)
    again = found.eval_command(entry.record, str(path))
    return Best(
        path=str(path) if is_written else "", score=entry.score, command=again, record=entry.record, unproven=why
    )


def best_entry(archive: "Archive", run: str, allow_unproven: bool) -> "ArchivedEvaluation | None":
    """Return the best kernel of a run that was evaluated fully; where none was, the best of all if that is allowed."""
    entry = archive.best(run)
    if entry is not None and not allow_unproven:
        require_proven(
            entry.record,
            f"The best kernel of run {run}",
            f"{_settling(archive.run(run), entry.record)} evaluates it fully",
        )
    return entry


def _settling(run: Run, record: Record) -> str:
    """The command at whose end the best kernel of a run is evaluated fully."""
    settings = run.settings
    if run.waits and (settings.get("elsewhere") == "True" or "record" in settings or "replay" in settings):
        claim = " --claim" if run.device == "cuda" else ""
        return f"`{run.eval_command(record, UNWRITTEN)}{claim}` of the file that --unproven writes"
    return f"`warpsmith tell {run.name}`" if run.waits else f"`{run.go_on}`"


def write_kernel(run: str, record: Record, out: Path | None = None) -> Path:
    """Write a kernel of a run, in the data folder unless a path is given, and return where."""
    why, language = unproven_reason(record), find_language(record.candidate.language)
    path = out or Home.locate().data / "runs" / run / f"best{language.suffix}"
    path = path.with_name(f"{mark_name(path.stem, why)}{path.suffix}")
    write_atomic(path, mark_source(record.candidate.source, why, language.comment))
    return path.absolute()
