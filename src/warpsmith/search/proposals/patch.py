"""A unified diff applied to a text, by content: line numbers that a model guessed are not needed. Touches no file."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Unapplied:
    """Why a patch does not apply."""

    message: str


@dataclass(frozen=True)
class Hunk:
    """Lines to find, and what stands in their place."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks(patch: str) -> Iterator[Hunk]:
    """The hunks of a diff, whatever its headers say."""
    old: list[str] = []
    new: list[str] = []
    for line in patch.splitlines():
        if line.startswith(("@@", "--- ", "+++ ", "diff ", "index ")):
            if old or new:
                yield Hunk(tuple(old), tuple(new))
            old, new = [], []
            continue
        mark, rest = line[:1], line[1:]
        if not mark or mark not in "+-\\":
            old.append(rest if mark == " " else line)
            new.append(rest if mark == " " else line)
        elif mark == "-":
            old.append(rest)
        elif mark == "+":
            new.append(rest)
    if old or new:
        yield Hunk(tuple(old), tuple(new))


def apply_patch(text: str, patch: str) -> str | Unapplied:
    """The text with every hunk applied, each where its old lines are found after the one before."""
    lines, at = text.splitlines(), 0
    found = list(hunks(patch))
    if not found:
        return Unapplied("The patch has no hunk.")
    for number, hunk in enumerate(found, 1):
        place = _find(lines, hunk.old, at)
        if place is None:
            shown = next((line.strip() for line in hunk.old if line.strip()), "")
            return Unapplied(f"Hunk {number} of the patch does not apply: '{shown[:100]}' is not there as it says.")
        lines[place : place + len(hunk.old)] = hunk.new
        at = place + len(hunk.new)
    return "\n".join(lines) + "\n"


def _find(lines: list[str], old: tuple[str, ...], start: int) -> int | None:
    """Where the old lines stand: after the last hunk, else anywhere; trailing blanks do not count."""
    wanted = [line.rstrip() for line in old]
    if not any(wanted):
        return None
    there = [line.rstrip() for line in lines]
    places = [*range(start, len(there)), *range(start)]
    return next((at for at in places if there[at : at + len(wanted)] == wanted), None)
