"""How a run stands at a moment, for whoever shows it. Prints nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpsmith.search.selection import RankedKernel


@dataclass(frozen=True)
class RunView:
    """A snapshot of a run."""

    run: str
    generation: int = 0
    generations: int = 0
    phase: str = ""
    done: int = 0  # slots of this generation that are finished
    slots: int = 0
    evaluations: int = 0
    funnel: Mapping[str, int] = field(default_factory=dict)
    best: RankedKernel | None = None
    lineage: tuple[str, ...] = ()
    usd: float = 0.0
    minutes: float = 0.0
    said: str = ""  # what just happened, in a line


@dataclass(frozen=True)
class Ending:
    """How a run ended: why, and what it has."""

    run: str
    why: str
    best: RankedKernel | None = None
    generations: int = 0
    evaluations: int = 0
    usd: float = 0.0
    minutes: float = 0.0
    funnel: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()  # what was lost on the way
    interrupted: bool = False
