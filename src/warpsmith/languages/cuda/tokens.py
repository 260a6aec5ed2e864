"""Kernels as tokens: equality and similarity."""

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
PRIME, MIX = (1 << 61) - 1, 0x9E3779B97F4A7C15  # spread hashes evenly, so that the smallest are a random sample
NAME = re.compile(r"[A-Za-z_]\w*")
ENDS = frozenset("=;,)[:")
NOT_TYPES = frozenset(("return", "else", "case", "goto", "throw", "define", "ifndef", "ifdef", "undef", "include"))
SKETCH = 128  # hashes of a source's sketch
NEAR = 0.998  # similarity from which two kernels are one: less than a line in a hundred
PERHAPS = 0.97  # similarity of sketches from which whole sources are compared


def tokens(source: str) -> tuple[str, ...]:
    """Return a source's tokens without comments and layout."""
    return tuple(TOKEN.findall(code_of(source, strings=True)))


def normal_digest(source: str, macros: Mapping[str, str]) -> str:
    """Return a hash without layout, comments and names."""
    return digest(_normal(source), *(f"{name}={value}" for name, value in sorted(macros.items())))


def normal_key(candidate: Candidate) -> str:
    """Return the normal digest of a candidate."""
    return normal_digest(candidate.source, candidate.macros)


@lru_cache(maxsize=64)
def _normal(source: str) -> str:
    """Return the hash of a source's tokens."""
    return digest("\0".join(number_names(tokens(source))))


def number_names(found: Sequence[str]) -> list[str]:
    """Return the tokens with declared variables numbered in order."""
    # A name that follows a type or a name, and ends at a declarator, is taken as declared; no C++ parser is needed.
    known = {
        name
        for before, name, after in zip(found, found[1:], found[2:], strict=False)
        if after in ENDS
        and NAME.fullmatch(name)
        and before not in NOT_TYPES
        and (before in "*&>" or NAME.fullmatch(before))
    }
    numbers: dict[str, str] = {}
    # Numbered in order of appearance, so renamed variables give equal tokens.
    return [numbers.setdefault(name, f"v{len(numbers)}") if name in known else name for name in found]


def shingles(source: str) -> frozenset[int]:
    """Return hashes of all runs of four tokens."""
    found = tokens(source)
    # crc32 is equal in every process, while Python salts hash().
    each = {token: crc32(token.encode()) for token in set(found)}
    # Three leading zeros give the first tokens runs of their own.
    row = [0, 0, 0, *(each[token] for token in found)]
    runs = zip(row, row[1:], row[2:], row[3:], strict=False)
    return frozenset((a + b * 1000003 + c * 8191 + d * 65599) * MIX % PRIME for a, b, c, d in runs)


@lru_cache(maxsize=64)
def sketch(source: str) -> frozenset[int]:
    """Return the 128 smallest shingles of a source."""
    # Bottom-k sketch: the smallest hashes are a random sample of the set (Broder 1997).
    return frozenset(nsmallest(SKETCH, shingles(source)))


def sketch_similarity(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the share of common hashes of two sketches, 0 to 1."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def similarity(one: str, other: str) -> float:
    """Return the share of common shingles of two sources, 0 to 1."""
    left, right = shingles(one), shingles(other)
    return len(left & right) / len(left | right)


class Novelty:
    """Memory of recently proposed kernels."""

    def __init__(self, near: float = NEAR, room: int = 128, digests: int = 50_000) -> None:
        self._near = near
        self._room = room
        self._most = digests
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._undecided: OrderedDict[str, None] = OrderedDict()
        self._sketches: OrderedDict[str, tuple[frozenset[int], str]] = OrderedDict()

    def duplicate_reason(self, source: str, macros: Mapping[str, str]) -> str:
        """Return the reason why a kernel is known, or "".

        Other macros on a known source are new.
        """
        key = normal_digest(source, macros)
        if key in self._seen:
            return "the same kernel was proposed before"
        # The tuner proposes other macros of one source on purpose, so only the plain source is compared by similarity.
        if macros:
            return ""
        found = sketch(source)
        for name, other in self._sketches.items():
            # Sketches estimate the similarity; only near ones are compared whole, which takes longer.
            if sketch_similarity(found, other[0]) < min(PERHAPS, self._near):
                continue
            same = similarity(source, other[1])
            if same >= self._near:
                return f"{same:.1%} of it is kernel {name[:12]} (from {self._near:.1%} on it counts as the same)"
        return ""

    def add_undecided(self, source: str, macros: Mapping[str, str]) -> None:
        """Remember a kernel without a verdict."""
        key = normal_digest(source, macros)
        # A second undecided evaluation counts as a decision, so that a search does not repeat it for ever.
        if key in self._undecided:
            self.add(source, macros)
        _remember(self._undecided, key, None, self._most)

    def add(self, source: str, macros: Mapping[str, str]) -> None:
        """Remember a kernel."""
        key = normal_digest(source, macros)
        _remember(self._seen, key, None, self._most)
        if not macros:
            _remember(self._sketches, key, (sketch(source), source), self._room)


def _remember(kept: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    """Add an entry and drop the oldest beyond `most`."""
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)
