"""Text helpers for messages, terminals, shells and JSON."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Controls but tab and line feed (escape sequences begin with one), and marks that turn the direction of writing.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OPENING = re.compile(r"[{\[]")
MOST_TRIED = 10_000  # openings that begin no object: each may cost as many steps as JSON may be nested


def find_nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return near known names, best first, or none."""
    table = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), table, n=most, cutoff=0.5)
    return [table[key] for key in found]


def pluralize(count: int, noun: str) -> str:
    """Format a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def escape_controls(text: str) -> str:
    """Replace each control character by a visible sign."""
    return OBEYED.sub("\ufffd", text)


def shell_line(*words: object) -> str:
    """Return the words quoted as one shell command line."""
    return shlex.join(map(str, words))


def find_json_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield a text's JSON objects, also inside lists."""
    # strict=False accepts line breaks inside strings, which models write.
    decoder, place, tried = json.JSONDecoder(strict=False), 0, 0
    while tried < MOST_TRIED and (opening := OPENING.search(text, place)) is not None:
        try:
            found, place = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):  # a number of thousands of digits is a plain ValueError
            place, tried = opening.start() + 1, tried + 1
            continue
        yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict))
