"""A kernel's own name out of what linkers and profilers call it."""

import re

MOST_CHARACTERS = 60


def plain_name(text: str) -> str:
    """Of a mangled name the last of the names it begins with; of a demangled one the name without its parameters."""
    return _mangled(text) if text.startswith("_Z") else _demangled(text)


def short_name(text: str) -> str:
    """The plain name, cut where templates make it long."""
    name = plain_name(text)
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"


def _mangled(text: str) -> str:
    rest, found = text.removeprefix("_Z").removeprefix("N"), text
    while length := re.match(r"\d+", rest):
        rest = rest[length.end() :]
        found, rest = rest[: int(length[0])], rest[int(length[0]) :]
    return found


def _demangled(text: str) -> str:
    """Up to the parenthesis of the parameters; an anonymous namespace has parentheses of its own."""
    bare = text.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").strip().removeprefix("void ")
    depth = 0
    for place, letter in enumerate(bare):
        depth += (letter == "<") - (letter == ">" and bare[place - 1] != "-")
        if letter == "(" and depth == 0:
            return bare[:place]
    return bare
