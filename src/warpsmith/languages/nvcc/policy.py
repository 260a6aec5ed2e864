"""The link policy: undefined symbols that an artifact may have."""

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
    """Symbol names that are allowed or refused for one reason."""

    name: str
    reason: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class LinkPolicy:
    """Symbol lists by precedence: libraries, refused, allowed."""

    refused: tuple[SymbolGroup, ...]
    libraries: tuple[SymbolGroup, ...]
    allowed: tuple[SymbolGroup, ...]

    @classmethod
    @functools.cache
    def load(cls) -> "LinkPolicy":
        """Load the list of the package."""
        # The list is a file, so that a reader of the docs and the tests see the same names and reasons.
        tables = tomllib.loads(DATA.read_text())
        return cls(*(tuple(_group(row) for row in tables[key]) for key in ("refused", "library", "allowed")))

    def check(self, symbols: tuple[str, ...], libraries: tuple[str, ...]) -> Failure | None:
        """Return a failure for the refused symbols, or None."""
        failures = [failure for symbol in symbols if (failure := self.judge(symbol, libraries)) is not None]
        if not failures:
            return None
        # A forbidden symbol is the stronger evidence, so its reason wins over a library call.
        first = next((failure for failure in failures if failure.reason is Reason.FORBIDDEN_SYMBOL), failures[0])
        findings = tuple(Finding(checker=Checker.LINK, message=failure.detail) for failure in failures[:SHOWN])
        return Failure(first.reason, first.detail, findings)

    def judge(self, symbol: str, libraries: tuple[str, ...]) -> Failure | None:
        """Return the failure of one symbol, or None if it is allowed."""
        shown = symbol if len(symbol) <= SHOWN_CHARACTERS else f"{symbol[:SHOWN_CHARACTERS]}…"
        # Libraries come first because a task may allow them; no task allows a refused symbol.
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
        """Whether the policy refuses a symbol by name."""
        return _first(self.libraries, symbol) is not None or _first(self.refused, symbol) is not None


def _group(row: dict[str, str | list[str]]) -> SymbolGroup:
    """Return the group of a row."""
    pattern = re.compile("|".join(translate(name) for name in row["names"]))
    return SymbolGroup(str(row.get("group", row.get("name"))), str(row.get("reason", "")), pattern)


def _first(groups: tuple[SymbolGroup, ...], symbol: str) -> SymbolGroup | None:
    """Return the first group that contains a symbol, or None."""
    return next((group for group in groups if group.pattern.fullmatch(symbol)), None)
