"""Names and counts in messages."""

import difflib
from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names closest to `name`, best first; empty if none is close."""
    table = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), table, n=most, cutoff=0.5)
    return [table[key] for key in found]


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun in the right number."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
