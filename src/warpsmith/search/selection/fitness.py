"""How good a record is to the search: its score, what binds it, and the gain of one record over another."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.base import geomean
from warpsmith.records import CaseTiming, ModelledTime, Record, Score, score

NEAR_MEMORY = 0.6  # of the roofline: from there on the memory binds, below it something else does


@dataclass(frozen=True)
class Fitness:
    """The score of a record that passed, how near it is to what the memory allows, and what binds it."""

    score: Score
    roofline: float | None = None
    binding: str = ""


def fitness(record: Record) -> Fitness | None:
    """The fitness of a record that was right and timed; None for every other."""
    found = score(record)
    if found is None or record.timing is None:
        return None
    return Fitness(found, _roofline(record.timing.seen), _binding(record.timing.seen))


def gain(one: Fitness, base: Fitness) -> float | None:
    """How many times faster one is than another; None where the two may not be compared."""
    return one.score.value / base.score.value if one.score.basis == base.score.basis else None


def slowest(cases: Sequence[CaseTiming]) -> CaseTiming:
    """The case that takes longest: what binds it is what binds the kernel."""
    return max(cases, key=lambda case: case.time.us)


def _roofline(cases: Sequence[CaseTiming]) -> float | None:
    shares = [case.roofline for case in cases if case.roofline]
    return geomean(shares) if shares else None


def _binding(cases: Sequence[CaseTiming]) -> str:
    """What binds the case that takes longest; of a measured time its nearness to the floor tells it roughly."""
    one = slowest(cases)
    if isinstance(one.time, ModelledTime):
        return one.time.binding
    if one.roofline is None:
        return ""
    return "memory" if one.roofline > NEAR_MEMORY else "latency"
