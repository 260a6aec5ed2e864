"""The text of a kernel as tokens: what is the same kernel in other words, and how alike two are. Parses no C++."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

from warpsmith.base import digest

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\.?\d[\w.]*|<<<|>>>|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|->|::|\S')
SHINGLE = 4  # tokens
NEAR = 0.995  # similarity from which two kernels are one


def tokens(source: str) -> tuple[str, ...]:
    """The tokens of a source without comments and layout."""
    return tuple(TOKEN.findall(COMMENT.sub(lambda found: found[1] or " ", source)))


def normal_digest(source: str, macros: Mapping[str, str]) -> str:
    """The hash of what a compiler would see, as far as layout and comments go, with the macros."""
    return digest(*tokens(source), *(f"{name}={value}" for name, value in sorted(macros.items())))


@lru_cache(maxsize=512)
def shingles(source: str) -> frozenset[int]:
    """Hashes of every run of tokens; the same on every machine and in every process."""
    found = tokens(source)
    runs = (" ".join(found[at : at + SHINGLE]) for at in range(max(1, len(found) - SHINGLE + 1)))
    return frozenset(int.from_bytes(blake2b(run.encode(), digest_size=8).digest(), "big") for run in runs)


def similarity(one: str, other: str) -> float:
    """Shared runs of tokens over all runs: 1 for the same text, 0 for nothing in common."""
    left, right = shingles(one), shingles(other)
    return len(left & right) / len(left | right)


class Novelty:
    """What was proposed lately. Sketches are kept of the last `room` sources, digests of many more."""

    def __init__(self, near: float = NEAR, room: int = 256, digests: int = 50_000) -> None:
        self._near = near
        self._room = room
        self._most = digests
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._sketches: OrderedDict[str, frozenset[int]] = OrderedDict()

    def why_not(self, source: str, macros: Mapping[str, str]) -> str:
        """Why a kernel is not new; empty when it is. Other macros on a known source are new."""
        key = normal_digest(source, macros)
        if key in self._seen:
            return "the same kernel was proposed before"
        if macros:
            return ""
        found = shingles(source)
        for name, other in self._sketches.items():
            alike = len(found & other) / len(found | other)
            if alike >= self._near:
                return f"{alike:.1%} of it is kernel {name[:12]} (from {self._near:.1%} on it counts as the same)"
        return ""

    def add(self, source: str, macros: Mapping[str, str]) -> None:
        """Remember a kernel."""
        key = normal_digest(source, macros)
        self._seen[key] = None
        if not macros:
            self._sketches[key] = shingles(source)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)
        while len(self._sketches) > self._room:
            self._sketches.popitem(last=False)
