"""What commands share about the archive: keeping a record, writing a kernel out, saying a score."""

import sys
from collections.abc import Iterable
from pathlib import Path

from warpsmith.base import ArchiveError, Home, pluralize, write_atomic
from warpsmith.records import Record, Score


def keep(records: Iterable[Record]) -> None:
    """Add records that belong to no run. What cannot be kept is said on stderr: the verdict stands all the same."""
    try:
        from warpsmith.archive import Archive

        with Archive.open() as archive, archive.transaction():
            for record in records:
                archive.add(None, record)
    except ArchiveError as error:
        print(f"not archived: {error}", file=sys.stderr)
    except ModuleNotFoundError as error:
        print(f"not archived: Python has no {error.name}; pip install {error.name}.", file=sys.stderr)


def score_text(score: Score | None) -> str:
    """A score in words that say what it is: a speedup with its interval, or a time that was modelled."""
    if score is None:
        return "-"
    return f"{score.words}, {pluralize(score.cases, 'case')}"


def kernel_path(run: str) -> Path:
    """Where the best kernel of a run is written."""
    return Home.locate().data / "runs" / run / "best.cu"


def write_kernel(path: Path, source: str) -> Path:
    """The text as it was evaluated, to a file."""
    write_atomic(path, source)
    return path
