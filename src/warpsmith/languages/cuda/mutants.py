"""Mutants: a kernel's source with one small change by an operator.

Whether a mutant is wrong is unknown here; the corpus decides that by evaluation.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from warpsmith.languages.cuda.text import code_of, find_closing, line_of

ON_DEVICE = re.compile(r"\b__(?:global|device)__\b[^;{]*\{")
Change: TypeAlias = str | Callable[[re.Match[str]], str]


class Harm(StrEnum):
    """The kind of defect that an operator causes; selects the reviewer."""

    BUILD = "build"
    MEMORY = "memory"
    VALUE = "value"


class Where(StrEnum):
    """The part of a source that an operator changes."""

    DEVICE = "device"
    HOST = "host"
    ANY = "any"


@dataclass(frozen=True)
class MutationOperator:
    """A kind of change, by patterns and replacements."""

    name: str
    sentence: str
    harm: Harm
    changes: tuple[tuple[str, Change], ...]
    where: Where = Where.DEVICE
    strings: bool = False  # whether the patterns look into strings too


@dataclass(frozen=True)
class Mutant:
    """A changed source with its operator and line."""

    operator: str
    line: int
    source: str


def mutants(source: str, operator: MutationOperator) -> list[Mutant]:
    """Return all mutants of a source by one operator, in text order."""
    # By position: two patterns of an operator may match at the same place.
    found = {place.start(): (place, change) for place, change in _find_places(source, operator)}
    made = (_apply_change(source, operator.name, *found[start]) for start in sorted(found))
    # A replacement may give the same text, which is no mutant.
    return [mutant for mutant in made if mutant.source != source]


def _find_places(source: str, operator: MutationOperator) -> Iterator[tuple[re.Match[str], Change]]:
    """Yield each match of the operator's patterns in its part of the source."""
    code = code_of(source)
    inside = list(_device_spans(code)) if operator.where is not Where.ANY else []
    for pattern, change in operator.changes:
        # Patterns that look into strings need the whole source; all others must not match comments.
        for place in re.finditer(pattern, source if operator.strings else code):
            on_device = any(start <= place.start() < end for start, end in inside)
            if operator.where is Where.ANY or on_device is (operator.where is Where.DEVICE):
                yield place, change


def _apply_change(source: str, operator: str, place: re.Match[str], change: Change) -> Mutant:
    """Return the mutant of one match."""
    text = place.expand(change) if isinstance(change, str) else change(place)
    shared = len(place[0]) - len(place[0].lstrip())  # a match may begin on the line before
    return Mutant(
        operator, line_of(source, place.start() + shared), source[: place.start()] + text + source[place.end() :]
    )


def _device_spans(code: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each device function."""
    for head in ON_DEVICE.finditer(code):
        yield head.start(), find_closing(code, head.end() - 1)
