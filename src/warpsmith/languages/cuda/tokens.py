"""The text of a kernel as tokens: what is the same kernel in other words, and how alike two are. Parses no C++."""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from typing import TypeVar
from zlib import crc32

from warpsmith.base import digest
from warpsmith.languages.cuda.text import code_of
from warpsmith.records import Candidate

T = TypeVar("T")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|[A-Za-z_]\w*|\.?\d[\w.]*|<<<|>>>|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|->|::|\S')
PRIME, MIX = (1 << 61) - 1, 0x9E3779B97F4A7C15  # spread hashes evenly, so that the smallest are a fair sample
NAME = re.compile(r"[A-Za-z_]\w*")
ENDS = frozenset("=;,)[:")
NOT_TYPES = frozenset(("return", "else", "case", "goto", "throw", "define", "ifndef", "ifdef", "undef", "include"))
SKETCH = 128  # hashes that stand for a source
NEAR = 0.998  # similarity from which two kernels are one: less than a line in a hundred
PERHAPS = 0.97  # by sketches, from which the whole sources are compared


def tokens(source: str) -> tuple[str, ...]:
    """The tokens of a source without comments and layout."""
    return tuple(TOKEN.findall(code_of(source, strings=True)))


def normal_digest(source: str, macros: Mapping[str, str]) -> str:
    """The hash of what a compiler would see, as far as layout and comments go, with the macros."""
    return digest(_normal(source), *(f"{name}={value}" for name, value in sorted(macros.items())))


def normal_key(candidate: Candidate) -> str:
    """What two candidates share that are the same kernel, whatever their task is called and wherever they come from."""
    return normal_digest(candidate.source, candidate.macros)


@lru_cache(maxsize=64)
def _normal(source: str) -> str:
    """The hash of the tokens; a kernel on its way through a generation is asked for it several times."""
    return digest("\0".join(renamed(tokens(source))))


def renamed(found: Sequence[str]) -> list[str]:
    """Tokens with every name that is declared as a variable numbered in order, so that other names change nothing."""
    known = {
        name
        for before, name, after in zip(found, found[1:], found[2:], strict=False)
        if after in ENDS
        and NAME.fullmatch(name)
        and before not in NOT_TYPES
        and (before in "*&>" or NAME.fullmatch(before))
    }
    numbers: dict[str, str] = {}
    return [numbers.setdefault(name, f"v{len(numbers)}") if name in known else name for name in found]


def shingles(source: str) -> frozenset[int]:
    """Hashes of every run of four tokens; the same on every machine and in every process."""
    found = tokens(source)
    each = {token: crc32(token.encode()) for token in set(found)}
    row = [0, 0, 0, *(each[token] for token in found)]
    runs = zip(row, row[1:], row[2:], row[3:], strict=False)
    return frozenset((a + b * 1000003 + c * 8191 + d * 65599) * MIX % PRIME for a, b, c, d in runs)


@lru_cache(maxsize=64)
def sketch(source: str) -> frozenset[int]:
    """The smallest hashes of a source: what two sketches share of their smallest tells how alike the sources are."""
    return frozenset(nsmallest(SKETCH, shingles(source)))


def alike(one: frozenset[int], other: frozenset[int]) -> float:
    """How alike two sources are by their sketches: 1 for the same, about as much less as they differ."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def similarity(one: str, other: str) -> float:
    """Shared runs of tokens over all runs: 1 for the same text, 0 for nothing in common."""
    left, right = shingles(one), shingles(other)
    return len(left & right) / len(left | right)


class Novelty:
    """What was proposed lately. Sketches are kept of the last `room` sources, digests of many more."""

    def __init__(self, near: float = NEAR, room: int = 128, digests: int = 50_000) -> None:
        self._near = near
        self._room = room
        self._most = digests
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._doubted: OrderedDict[str, None] = OrderedDict()
        self._sketches: OrderedDict[str, tuple[frozenset[int], str]] = OrderedDict()

    def why_not(self, source: str, macros: Mapping[str, str]) -> str:
        """Why a kernel is not new; empty when it is. Other macros on a known source are new."""
        key = normal_digest(source, macros)
        if key in self._seen:
            return "the same kernel was proposed before"
        if macros:
            return ""
        found = sketch(source)
        for name, other in self._sketches.items():
            if alike(found, other[0]) < min(PERHAPS, self._near):
                continue
            same = similarity(source, other[1])
            if same >= self._near:
                return f"{same:.1%} of it is kernel {name[:12]} (from {self._near:.1%} on it counts as the same)"
        return ""

    def doubt(self, source: str, macros: Mapping[str, str]) -> None:
        """Remember a kernel that got no verdict: it may be proposed once more, and then no longer."""
        key = normal_digest(source, macros)
        if key in self._doubted:
            self.add(source, macros)
        _keep(self._doubted, key, None, self._most)

    def add(self, source: str, macros: Mapping[str, str]) -> None:
        """Remember a kernel."""
        key = normal_digest(source, macros)
        _keep(self._seen, key, None, self._most)
        if not macros:
            _keep(self._sketches, key, (sketch(source), source), self._room)


def _keep(kept: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    """Remember one; the oldest are forgotten."""
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)
