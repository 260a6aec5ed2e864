"""The link policy: which undefined symbols an artifact may have, and why. The list is data; it is not the wall."""

import functools
import re
import tomllib
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from warpsmith.records import Checker, Failure, Finding, Reason

DATA = Path(__file__).parent / "data" / "link_policy.toml"
SHOWN = 8
SHOWN_CHARACTERS = 200  # of a symbol in a message


@dataclass(frozen=True)
class SymbolGroup:
    """A set of symbol names that are allowed or refused for one reason."""

    name: str
    reason: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class LinkPolicy:
    """Refused first, then libraries, then allowed; what is in none is refused as unlisted."""

    refused: tuple[SymbolGroup, ...]
    libraries: tuple[SymbolGroup, ...]
    allowed: tuple[SymbolGroup, ...]

    @classmethod
    @functools.cache
    def load(cls) -> "LinkPolicy":
        """The list that comes with the package."""
        tables = tomllib.loads(DATA.read_text())
        return cls(*(tuple(_group(row) for row in tables[key]) for key in ("refused", "library", "allowed")))

    def check(self, symbols: tuple[str, ...], libraries: tuple[str, ...]) -> Failure | None:
        """The first reason against these undefined symbols; every refused one is a finding."""
        failures = [failure for symbol in symbols if (failure := self.judge(symbol, libraries)) is not None]
        if not failures:
            return None
        first = next((failure for failure in failures if failure.reason is Reason.FORBIDDEN_SYMBOL), failures[0])
        findings = tuple(Finding(checker=Checker.LINK, message=failure.detail) for failure in failures[:SHOWN])
        return Failure(first.reason, first.detail, findings)

    def judge(self, symbol: str, libraries: tuple[str, ...]) -> Failure | None:
        """Why one symbol may not be used, or None."""
        shown = symbol if len(symbol) <= SHOWN_CHARACTERS else f"{symbol[:SHOWN_CHARACTERS]}…"
        if library := _first(self.libraries, symbol):
            if library.name in libraries:
                return None
            return Failure(
                Reason.LIBRARY_CALL,
                f"Symbol `{shown}` is a call of {library.name}, which the task does not allow.",
            )
        if refused := _first(self.refused, symbol):
            return Failure(Reason.FORBIDDEN_SYMBOL, f"Symbol `{shown}` is refused ({refused.name}): {refused.reason}.")
        if _first(self.allowed, symbol):
            return None
        detail = f"Symbol `{shown}` is refused: it is on no list of what a kernel needs."
        return Failure(Reason.FORBIDDEN_SYMBOL, detail)

    def names_known(self, symbol: str) -> bool:
        """Whether the policy refuses the symbol by name, so that a failed link is about that and no mere typo."""
        return _first(self.libraries, symbol) is not None or _first(self.refused, symbol) is not None


def _group(row: dict[str, str | list[str]]) -> SymbolGroup:
    pattern = re.compile("|".join(translate(name) for name in row["names"]))
    return SymbolGroup(str(row.get("group", row.get("name"))), str(row.get("reason", "")), pattern)


def _first(groups: tuple[SymbolGroup, ...], symbol: str) -> SymbolGroup | None:
    return next((group for group in groups if group.pattern.fullmatch(symbol)), None)
