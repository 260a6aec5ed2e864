"""Tunables: `// tune: BLOCK = 256 [64, 128, 256]` lines of a source, and their space.

A value reaches the source as a macro, so the source guards its default: `#ifndef BLOCK`, `#define BLOCK 256`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from warpsmith.records import Candidate

MARK = re.compile(r"^\s*//\s*tune\s*:(?P<rest>.*)$")
FORM = re.compile(r"\s*(?P<name>[A-Za-z_]\w{0,63})\s*=\s*(?P<default>[\w.+-]+)\s*\[(?P<choices>[^\[\]]*)\]\s*(?://.*)?")
# Without `\s*` before the #, which would search a megabyte of empty lines once for each of them.
GUARD = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)", re.MULTILINE)
VALUE = re.compile(r"[\w.+-]{1,40}")
MOST_CHOICES = 64
MOST_TUNABLES = 16
MOST_BAD = 16  # declarations that are refused by name; no more are read


@dataclass(frozen=True)
class Tunable:
    """A declared macro with default and choices."""

    name: str
    default: str
    choices: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class BadTune:
    """An unreadable declaration with line and error."""

    line: int
    message: str


@dataclass(frozen=True)
class Space:
    """The tunables of a source, and its invalid declarations."""

    tunables: tuple[Tunable, ...] = ()
    bad: tuple[BadTune, ...] = ()

    @property
    def size(self) -> int:
        """Number of points; 1 without tunables."""
        return prod(len(one.choices) for one in self.tunables)

    def points(self) -> Iterator[Mapping[str, str]]:
        """Yield each point as macros that differ from the defaults, the default first."""
        # The default comes first: the tuner measures every other point against it.
        yield {}
        for values in product(*(one.choices for one in self.tunables)):
            if point := self.macros(dict(zip((one.name for one in self.tunables), values, strict=True))):
                yield point

    def macros(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return values as macros in normal form, so that equal kernels have one id."""
        # Defaults are left out: macros are hashed into a candidate's id.
        return {one.name: values[one.name] for one in self.tunables if values.get(one.name, one.default) != one.default}

    def restrict_macros(self, macros: Mapping[str, str]) -> Mapping[str, str]:
        """Return another kernel's macros that are choices here."""
        allowed = {one.name: one.choices for one in self.tunables}
        return self.macros({name: value for name, value in macros.items() if value in allowed.get(name, ())})

    def values(self, macros: Mapping[str, str]) -> Mapping[str, str]:
        """Return the value of every tunable under some macros."""
        return {one.name: macros.get(one.name, one.default) for one in self.tunables}


def read_space(source: str) -> Space:
    """Read the space that a source declares."""
    found: dict[str, Tunable] = {}
    bad: list[BadTune] = []
    # A guard is needed: without #ifndef the source would override the macro of the command line.
    guarded = frozenset(GUARD.findall(source))
    for number, line in enumerate(source.splitlines(), 1):
        mark = MARK.match(line)
        if mark is None:
            continue
        one = _read_declaration(mark["rest"], number, guarded, found)
        if isinstance(one, BadTune):
            bad.append(one)
            if len(bad) == MOST_BAD:
                break
        else:
            found[one.name] = one
    return Space(tuple(found.values()), tuple(bad))


def _read_declaration(rest: str, line: int, guarded: frozenset[str], known: Mapping[str, Tunable]) -> Tunable | BadTune:
    """Read one declaration."""
    form = FORM.fullmatch(rest)
    if form is None:
        return BadTune(line, f"'{rest.strip()[:80]}' is not NAME = DEFAULT [CHOICE, CHOICE, …]")
    name, default = form["name"], form["default"]
    # Duplicate choices would be evaluated twice.
    choices = tuple(dict.fromkeys(part.strip() for part in form["choices"].split(",")))
    fault = _describe_error(name, default, choices, guarded, known)
    return BadTune(line, fault) if fault else Tunable(name, default, choices, line)


def _describe_error(
    name: str, default: str, choices: tuple[str, ...], guarded: frozenset[str], known: Mapping[str, Tunable]
) -> str:
    """Return a declaration's error, or an empty text."""
    odd = [choice for choice in choices if not VALUE.fullmatch(choice)]
    if odd:
        return f"choice '{odd[0][:40]}' of {name} is no number and no name"
    if len(choices) > MOST_CHOICES:
        return f"{name} has {len(choices)} choices; at most {MOST_CHOICES} are searched"
    if default not in choices:
        return f"the default {default[:40]} of {name} is not among its choices {', '.join(choices)}"
    if name in known:
        return f"{name} was declared in line {known[name].line} already"
    if len(known) == MOST_TUNABLES:
        return f"{name} is tunable {MOST_TUNABLES + 1}; at most {MOST_TUNABLES} are searched"
    if name not in guarded:
        return f"{name} has no guard: write #ifndef {name}, #define {name} {default}, #endif"
    return ""


def with_macros(candidate: Candidate, macros: Mapping[str, str]) -> Candidate:
    """Return a candidate at another point of its space."""
    update = {"macros": dict(macros), "parents": (candidate.id,), "origin": "tuner"}
    return candidate.model_copy(update=update)


def format_macros(macros: Mapping[str, str]) -> str:
    """Return a point as text."""
    return " ".join(f"{name}={value}" for name, value in sorted(macros.items())) or "defaults"
