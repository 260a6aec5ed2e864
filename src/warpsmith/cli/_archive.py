"""What commands print about scores and archived records."""

import sys
from collections.abc import Iterable

from warpsmith.app import archive_records
from warpsmith.base import pluralize
from warpsmith.records import Record, Score


def archive_or_warn(records: Iterable[Record]) -> None:
    """Archive records that belong to no run; print on stderr why they could not be archived."""
    warn_not_archived(archive_records(records))


def warn_not_archived(why: str) -> None:
    """Print the reason for unarchived records on stderr."""
    if why:
        print(f"not archived: {why}", file=sys.stderr)


def score_text(score: Score | None, unproven: str = "") -> str:
    """Return a score as text: a speedup with its interval, or a modelled time."""
    if score is None:
        return "-"
    return f"{score.words}, {pluralize(score.cases, 'case')}{', not evaluated fully' if unproven else ''}"
