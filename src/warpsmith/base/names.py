"""Nearest names, for messages about a name that does not exist."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty when none is close."""
    table = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), table, n=most, cutoff=0.5)
    return [table[key] for key in found]
