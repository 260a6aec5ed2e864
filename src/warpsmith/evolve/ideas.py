"""The library of optimization ideas, and which of them suits a kernel. The ideas are data."""

import random
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from warpsmith.records import Model

FILE = Path(__file__).parent / "ideas.toml"
SUITS = 4.0  # how much likelier an idea is that helps with what binds the kernel
TRIED = 0.5  # how much less likely each time it was tried on this task


class Idea(Model):
    """One idea: what to do, when it applies, from which compute capability on, and what it helps against."""

    id: str
    advice: str
    when: str
    since: float = 0.0
    helps: tuple[str, ...] = ()


@cache
def ideas() -> tuple[Idea, ...]:
    """All of them, in the order of the file."""
    return tuple(Idea.model_validate(row) for row in tomllib.loads(FILE.read_text())["idea"])


def applicable(capability: float) -> tuple[Idea, ...]:
    """Those that a GPU of this compute capability can use."""
    return tuple(idea for idea in ideas() if idea.since <= capability)


def sample(among: Sequence[Idea], binding: str, tried: Mapping[str, int], draw: random.Random) -> Idea:
    """One idea by chance, likelier the better it suits what binds and the less it was tried."""
    weights = [(SUITS if binding in idea.helps else 1.0) * TRIED ** tried.get(idea.id, 0) for idea in among]
    return draw.choices(list(among), weights)[0]
