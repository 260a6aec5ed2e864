"""Files and archive of records without a run."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from warpsmith.archive import Archive
from warpsmith.base import RECORDS_BYTES, ArchiveError, UsageError, read_text
from warpsmith.evaluation import BadLine
from warpsmith.records import Record

RECORDS = (".json", ".jsonl")
RESULTS = Path("docs", "results")
DEPTH = 2  # folders between kernels/TASK/DIRECTION.cu and the folder that has docs/results too
RECORD_HELP = "A record is what warpsmith eval --json prints."
Line = tuple[int, Record | str]  # its number, and its record or why it holds none


def read_records(path: Path) -> list[Record]:
    """Return the records of a file. Raise UsageError at the first line without one."""
    found = []
    for number, one in read_lines(path):
        if isinstance(one, str):
            raise UsageError(f"{path}:{number}: no record: {one}. {RECORD_HELP}")
        found.append(one)
    return found


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file. Raise UsageError if no line holds a record."""
    text = read_text(path, RECORDS_BYTES)
    # A file with one indented record is JSON; a file of several is JSON lines.
    whole = Record.read(text)
    if isinstance(whole, Record):
        return [(1, whole)]
    found = list(parse_results(text.split("\n")))
    if not any(isinstance(one, Record) for _, one in found):
        first = f"{path}:{found[0][0]}: no record: {found[0][1]}." if found else f"{path} holds no record."
        raise UsageError(f"{first} {RECORD_HELP}")
    return found


def parse_results(lines: Sequence[str]) -> Iterator[Line]:
    """Yield the lines that eval-batch wrote; a line without a record gives the error that stands there."""
    for number, one in parse_records(lines):
        yield number, one if isinstance(one, Record) else batch_error(lines[number - 1]) or one


def batch_error(line: str) -> str:
    """Return the error that eval-batch wrote in place of a record, or an empty text."""
    found = BadLine.read(line)
    return found.error if isinstance(found, BadLine) else ""


def parse_records(lines: Iterable[str | bytes]) -> Iterator[Line]:
    """Yield each line that is not empty, with its number."""
    return ((number, Record.read(line)) for number, line in enumerate(lines, 1) if line.strip())


def results_for(kernel: Path, folder: Path | None) -> Path | None:
    """Return the folder with the records of a kernel: the given one, or docs/results beside the kernels."""
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"Folder {folder} does not exist. --against names one that holds records.")
        return folder
    # A path with too few parents is relative, so its absolute form is used.
    above = kernel.parents if len(kernel.parents) > DEPTH else kernel.absolute().parents
    usual = above[DEPTH] / RESULTS if len(above) > DEPTH else None
    return usual if usual and usual.is_dir() else None


def records_below(folder: Path) -> tuple[Record, ...]:
    """Return every record of a folder in the order of its files; other lines are skipped."""
    paths = sorted(one for suffix in RECORDS for one in folder.rglob(f"*{suffix}"))
    lines = (line for path in paths for line in _lines(path))
    return tuple(one for _, one in parse_records(lines) if isinstance(one, Record))


def _lines(path: Path) -> list[str]:
    text = read_text(path, RECORDS_BYTES)
    # A .json file holds one record on many lines.
    return text.split("\n") if path.suffix == ".jsonl" else [text]


def archive_records(records: Iterable[Record]) -> str:
    """Add records without a run; return the reason for a failure, or "".

    It is no exception, because the verdict of an evaluation counts without the archive.
    """
    # Without the archive, the verdict of an evaluation still counts, so its failure is a text.
    try:
        with Archive.open() as archive, archive.transaction():
            for record in records:
                archive.add(None, record)
    except ArchiveError as error:
        return str(error)
    except ModuleNotFoundError as error:
        return f"Python has no {error.name}; pip install {error.name}."
    return ""
