"""Names and counts in messages: the nearest to one that does not exist, a count with its noun."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty when none is close."""
    table = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), table, n=most, cutoff=0.5)
    return [table[key] for key in found]


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
