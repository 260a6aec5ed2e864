"""The kernels that the search draws from, with their fitness."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from warpsmith.base import geomean
from warpsmith.languages.cuda import cell
from warpsmith.records import CaseTiming, ModelledTime, Record, Score, score

NEAR_MEMORY = 0.6  # share of the roofline above which memory is taken as the binding resource


@dataclass(frozen=True)
class Fitness:
    """The score of a passed record, its share of the roofline, and the binding resource."""

    score: Score
    roofline: float | None = None
    binding: str = ""


def find_fitness(record: Record) -> Fitness | None:
    """Return the fitness of a record, or None if it did not pass or has no time."""
    found = score(record)
    if found is None or record.timing is None:
        return None
    return Fitness(found, _roofline(record.timing.seen), _binding(record.timing.seen))


def gain_over(one: Fitness, base: Fitness) -> float | None:
    """Return the ratio of two scores, or None if they cannot be compared."""
    # Scores of another basis (cases, GPU, kind of time) have no common unit.
    return one.score.value / base.score.value if one.score.basis == base.score.basis else None


def slowest_case(cases: Sequence[CaseTiming]) -> CaseTiming:
    """Return the case with the longest time; it decides what binds the kernel."""
    return max(cases, key=lambda case: case.time.us)


def _roofline(cases: Sequence[CaseTiming]) -> float | None:
    shares = [case.roofline for case in cases if case.roofline]
    return geomean(shares) if shares else None


def _binding(cases: Sequence[CaseTiming]) -> str:
    """Return the binding resource of the slowest case; for a measured time, an estimate from the roofline."""
    one = slowest_case(cases)
    if isinstance(one.time, ModelledTime):
        return one.time.binding
    # No counters were measured. Near the memory roofline the memory binds; far below it, something else does.
    if one.roofline is None:
        return ""
    return "memory" if one.roofline > NEAR_MEMORY else "latency"


ROOM = 64  # members
CONTEXT = 5  # kernels that a prompt shows
DIVERSE = 0.25  # share of parents that are drawn from cells instead of by rank
PRESSURE = 0.7  # probability factor from one rank to the next


@dataclass(frozen=True)
class RankedKernel:
    """A correct kernel with a time; `gain` is over the run's first kernel."""

    record: Record
    fitness: Fitness
    gain: float
    cell: str
    generation: int = 0
    name: str = ""

    @cached_property
    def id(self) -> str:
        """The candidate's cached id."""
        return self.record.candidate.id


@dataclass
class Population:
    """The members, and the fitness of the first one, to which gains refer."""

    room: int = ROOM
    base: Fitness | None = None
    members: list[RankedKernel] = field(default_factory=list)

    def add(self, record: Record, generation: int, name: str = "") -> RankedKernel | None:
        """Add a record and return its member, or None if it failed or its time cannot be compared."""
        found = find_fitness(record)
        if found is None:
            return None
        # The first timed kernel is the base, and stays the base when it is dropped from the members.
        self.base = self.base or found
        over = gain_over(found, self.base)
        if over is None:
            return None
        niche = cell(record.candidate.source, record.candidate.macros, found.binding)
        member = RankedKernel(record, found, over, niche, generation, name or record.candidate.origin)
        if all(member.id != one.id for one in self.members):
            self.members.append(member)
            self._trim()
        return member

    def drop(self, id: str) -> None:
        """Remove a kernel that a later evaluation refuted."""
        self.members = [one for one in self.members if one.id != id]

    @property
    def best(self) -> RankedKernel | None:
        """The fastest member; of equals the first."""
        return max(self.members, key=lambda one: one.gain, default=None)

    def lineage(self) -> tuple[str, ...]:
        """Return the best kernel's lineage, oldest first."""
        known = {one.id: one for one in self.members}
        names: list[str] = []
        # Parents may form a cycle in records from elsewhere.
        seen: set[str] = set()
        one = self.best
        while one is not None and one.id not in seen:
            seen.add(one.id)
            names.append(one.name)
            one = next((known[parent] for parent in one.record.candidate.parents if parent in known), None)
        return tuple(reversed(names))

    def ranked(self) -> list[RankedKernel]:
        """Return the members, fastest first."""
        return sorted(self.members, key=lambda one: -one.gain)

    def elites(self) -> dict[str, RankedKernel]:
        # ranked() is fastest first, so the first member of a cell stays.
        """Return the fastest member of each cell."""
        found: dict[str, RankedKernel] = {}
        for member in self.ranked():
            found.setdefault(member.cell, member)
        return found

    def draw_parent(self, draw: random.Random, without: Iterable[str] = ()) -> RankedKernel | None:
        """Draw one parent: by rank, or with probability DIVERSE from a random cell."""
        barred = set(without)
        ranked = [one for one in self.ranked() if one.id not in barred]
        if not ranked:
            return None
        if draw.random() < DIVERSE:
            niches = [one for one in self.elites().values() if one.id not in barred]
            return draw.choice(niches or ranked)
        # A geometric distribution over ranks depends on the order alone, so one large gain does not take all draws.
        return draw.choices(ranked, [PRESSURE**rank for rank in range(len(ranked))])[0]

    def draw_context(
        self, parents: Sequence[RankedKernel], draw: random.Random, room: int = CONTEXT
    ) -> list[RankedKernel]:
        """Return up to `room` different kernels from slow to fast: parents, the best, then random members."""
        chosen = {one.id: one for one in parents}
        others = [one for one in self.ranked() if one.id not in chosen]
        if others and others[0] is self.best:
            best = others.pop(0)
            chosen[best.id] = best
        # Points of one source differ in macros only; showing one of them is enough.
        sources = {one.record.candidate.source for one in chosen.values()}
        for one in draw.sample(others, len(others)):
            if len(chosen) < room and one.record.candidate.source not in sources:
                chosen[one.id] = one
                sources.add(one.record.candidate.source)
        return sorted(chosen.values(), key=lambda one: one.gain)[-room:]

    def _trim(self) -> None:
        """Drop the slowest member that is no elite, or the slowest of all."""
        if len(self.members) <= self.room:
            return
        # An elite is the only member of its cell that draws by cell can reach, so elites go last.
        kept = {one.id for one in self.elites().values()}
        spare = [one for one in self.members if one.id not in kept] or self.members
        self.members.remove(min(spare, key=lambda one: one.gain))
