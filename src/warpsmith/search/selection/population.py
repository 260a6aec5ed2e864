"""The kernels that the search draws from: a bounded set of the best, one a cell kept, in the order they came."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from warpsmith.languages.cuda import cell
from warpsmith.records import Record
from warpsmith.search.selection.fitness import Fitness, fitness, gain

ROOM = 64  # members
CONTEXT = 5  # kernels that a prompt shows
DIVERSE = 0.25  # of parents, drawn from cells and not by rank
PRESSURE = 0.7  # how much less likely each next rank is


@dataclass(frozen=True)
class RankedKernel:
    """A kernel that was right and has a time; `gain` is over the run's first one."""

    record: Record
    fitness: Fitness
    gain: float
    cell: str
    generation: int = 0
    name: str = ""

    @cached_property
    def id(self) -> str:
        """The candidate's id; hashing a source again and again is what would cost most in a search."""
        return self.record.candidate.id


@dataclass
class Population:
    """The members, and the first of them: the base that gains are told over."""

    room: int = ROOM
    base: Fitness | None = None
    members: list[RankedKernel] = field(default_factory=list)

    def add(self, record: Record, generation: int, name: str = "") -> RankedKernel | None:
        """Take a record in; None when it is no member: wrong, without a time, or timed otherwise than the base."""
        found = fitness(record)
        if found is None:
            return None
        self.base = self.base or found
        over = gain(found, self.base)
        if over is None:
            return None
        niche = cell(record.candidate.source, record.candidate.macros, found.binding)
        member = RankedKernel(record, found, over, niche, generation, name or record.candidate.origin)
        if all(member.id != one.id for one in self.members):
            self.members.append(member)
            self._trim()
        return member

    def drop(self, id: str) -> None:
        """Forget a kernel that turned out to be wrong: nothing is built on it any more."""
        self.members = [one for one in self.members if one.id != id]

    @property
    def best(self) -> RankedKernel | None:
        """The fastest; of equals the first."""
        return max(self.members, key=lambda one: one.gain, default=None)

    def lineage(self) -> tuple[str, ...]:
        """The names of the best kernel and of what it came from, as far as they are members, the oldest first."""
        known = {one.id: one for one in self.members}
        names: list[str] = []
        seen: set[str] = set()
        one = self.best
        while one is not None and one.id not in seen:
            seen.add(one.id)
            names.append(one.name)
            one = next((known[parent] for parent in one.record.candidate.parents if parent in known), None)
        return tuple(reversed(names))

    def ranked(self) -> list[RankedKernel]:
        """Fastest first; of equals the one that came first."""
        return sorted(self.members, key=lambda one: -one.gain)

    def elites(self) -> dict[str, RankedKernel]:
        """The fastest of each cell."""
        found: dict[str, RankedKernel] = {}
        for member in self.ranked():
            found.setdefault(member.cell, member)
        return found

    def parent(self, draw: random.Random, without: Iterable[str] = ()) -> RankedKernel | None:
        """One parent: by rank, or with a fixed share the best of a random cell."""
        barred = set(without)
        ranked = [one for one in self.ranked() if one.id not in barred]
        if not ranked:
            return None
        if draw.random() < DIVERSE:
            niches = [one for one in self.elites().values() if one.id not in barred]
            return draw.choice(niches or ranked)
        return draw.choices(ranked, [PRESSURE**rank for rank in range(len(ranked))])[0]

    def context(self, parents: Sequence[RankedKernel], draw: random.Random, room: int = CONTEXT) -> list[RankedKernel]:
        """Up to five different kernels from slow to fast: the parents, the best, then others by chance."""
        chosen = {one.id: one for one in parents}
        others = [one for one in self.ranked() if one.id not in chosen]
        if others and others[0] is self.best:
            best = others.pop(0)
            chosen[best.id] = best
        sources = {one.record.candidate.source for one in chosen.values()}
        for one in draw.sample(others, len(others)):
            if len(chosen) < room and one.record.candidate.source not in sources:
                chosen[one.id] = one
                sources.add(one.record.candidate.source)
        return sorted(chosen.values(), key=lambda one: one.gain)[-room:]

    def _trim(self) -> None:
        """Drop the slowest that is the best of no cell; when all are, the slowest."""
        if len(self.members) <= self.room:
            return
        kept = {one.id for one in self.elites().values()}
        spare = [one for one in self.members if one.id not in kept] or self.members
        self.members.remove(min(spare, key=lambda one: one.gain))
