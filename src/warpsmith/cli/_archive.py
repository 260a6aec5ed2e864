"""What commands share about the archive: keeping a record, saying a score."""

import sys
from collections.abc import Iterable

from warpsmith.base import ArchiveError, pluralize
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


def score_text(score: Score | None, unproven: str = "") -> str:
    """A score in words that say what it is: a speedup with its interval, or a time that was modelled."""
    if score is None:
        return "-"
    return f"{score.words}, {pluralize(score.cases, 'case')}{', not evaluated fully' if unproven else ''}"
