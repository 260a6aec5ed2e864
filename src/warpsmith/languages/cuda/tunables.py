"""Tunables: `// tune: BLOCK = 256 [64, 128, 256]` lines of a source, the space they span. Knows no compiler.

A value reaches the source as a macro, so the source guards its own default: `#ifndef BLOCK`, `#define BLOCK 256`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from warpsmith.records import Candidate

MARK = re.compile(r"^\s*//\s*tune\s*:(?P<rest>.*)$")
FORM = re.compile(r"\s*(?P<name>[A-Za-z_]\w{0,63})\s*=\s*(?P<default>[\w.+-]+)\s*\[(?P<choices>[^\[\]]*)\]\s*(?://.*)?")
VALUE = re.compile(r"[\w.+-]{1,40}")
MOST_CHOICES = 64
MOST_TUNABLES = 16


@dataclass(frozen=True)
class Tunable:
    """One declaration: a macro, the value it has by itself, and all it may have."""

    name: str
    default: str
    choices: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class BadTune:
    """A declaration that cannot be read: its line and what is wrong."""

    line: int
    message: str


@dataclass(frozen=True)
class Space:
    """The tunables of a source, and the declarations that are none."""

    tunables: tuple[Tunable, ...] = ()
    bad: tuple[BadTune, ...] = ()

    @property
    def size(self) -> int:
        """How many points there are; one when nothing can be tuned."""
        return prod(len(one.choices) for one in self.tunables)

    def points(self) -> Iterator[Mapping[str, str]]:
        """Every point as the macros that differ from the defaults, the default point first."""
        yield {}
        for values in product(*(one.choices for one in self.tunables)):
            if point := self.macros(dict(zip((one.name for one in self.tunables), values, strict=True))):
                yield point

    def macros(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Values as macros in normal form: what is as declared is not said, so that equal kernels have one id."""
        return {one.name: values[one.name] for one in self.tunables if values.get(one.name, one.default) != one.default}

    def kept(self, macros: Mapping[str, str]) -> Mapping[str, str]:
        """Of another kernel's macros those that are a choice here too: a child begins where its parent was tuned."""
        allowed = {one.name: one.choices for one in self.tunables}
        return self.macros({name: value for name, value in macros.items() if value in allowed.get(name, ())})

    def values(self, macros: Mapping[str, str]) -> Mapping[str, str]:
        """The value of every tunable under some macros."""
        return {one.name: macros.get(one.name, one.default) for one in self.tunables}


def read_space(source: str) -> Space:
    """The space that a source declares; a bad declaration leaves the others as they are."""
    found: dict[str, Tunable] = {}
    bad: list[BadTune] = []
    for number, line in enumerate(source.splitlines(), 1):
        mark = MARK.match(line)
        if mark is None:
            continue
        one = _read(mark["rest"], number, source, found)
        if isinstance(one, BadTune):
            bad.append(one)
        else:
            found[one.name] = one
    return Space(tuple(found.values()), tuple(bad))


def _read(rest: str, line: int, source: str, known: Mapping[str, Tunable]) -> Tunable | BadTune:
    form = FORM.fullmatch(rest)
    if form is None:
        return BadTune(line, f"'{rest.strip()[:80]}' is not NAME = DEFAULT [CHOICE, CHOICE, …]")
    name, default = form["name"], form["default"]
    choices = tuple(dict.fromkeys(part.strip() for part in form["choices"].split(",")))
    fault = _fault(name, default, choices, source, known)
    return BadTune(line, fault) if fault else Tunable(name, default, choices, line)


def _fault(name: str, default: str, choices: tuple[str, ...], source: str, known: Mapping[str, Tunable]) -> str:
    odd = [choice for choice in choices if not VALUE.fullmatch(choice)]
    if odd:
        return f"choice '{odd[0][:40]}' of {name} is no number and no name"
    if default not in choices:
        return f"the default {default} of {name} is not among its choices {', '.join(choices)}"
    if len(choices) > MOST_CHOICES:
        return f"{name} has {len(choices)} choices; at most {MOST_CHOICES} are searched"
    if name in known:
        return f"{name} was declared in line {known[name].line} already"
    if len(known) == MOST_TUNABLES:
        return f"{name} is tunable {MOST_TUNABLES + 1}; at most {MOST_TUNABLES} are searched"
    if not re.search(rf"^\s*#\s*ifndef\s+{name}\b", source, re.MULTILINE):
        return f"{name} has no guard: write #ifndef {name}, #define {name} {default}, #endif"
    return ""


def tuned(candidate: Candidate, macros: Mapping[str, str]) -> Candidate:
    """A candidate at another point of its space."""
    update = {"macros": dict(macros), "parents": (candidate.id,), "origin": "tuner"}
    return candidate.model_copy(update=update)


def said(macros: Mapping[str, str]) -> str:
    """A point in words."""
    return " ".join(f"{name}={value}" for name, value in sorted(macros.items())) or "defaults"
