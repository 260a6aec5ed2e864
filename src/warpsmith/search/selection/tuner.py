"""The tuner: points of a kernel's space to try next, from the points tried so far. Needs no model and no clock."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from warpsmith.languages.cuda import Space

EXHAUSTIVE = 24  # points that are simply all tried
SCOUTS = 8  # points by chance once no single change helps any more

Point = tuple[tuple[str, str], ...]


def point(macros: Mapping[str, str]) -> Point:
    """Macros as something to look up."""
    return tuple(sorted(macros.items()))


@dataclass
class Trials:
    """What is known of one source: its space, and the gain of each point that was tried; None where it failed."""

    space: Space
    gains: dict[Point, float | None] = field(default_factory=dict)

    @property
    def best(self) -> Mapping[str, str]:
        """The macros of the best point so far; the defaults when none was right."""
        timed = [(gain, one) for one, gain in self.gains.items() if gain is not None]
        return dict(max(timed, key=lambda pair: pair[0])[1]) if timed else {}

    def next(self, count: int, draw: random.Random) -> list[Mapping[str, str]]:
        """Up to `count` new points: all of a small space; else changes of the best point, then scouts by chance."""
        order = self._all(draw) if self.space.size <= EXHAUSTIVE else self._around(draw)
        found: dict[Point, Mapping[str, str]] = {}
        for macros in order:
            if len(found) == count:
                break
            if point(macros) not in self.gains:
                found.setdefault(point(macros), macros)
        return list(found.values())

    def _all(self, draw: random.Random) -> Iterator[Mapping[str, str]]:
        points = list(self.space.points())
        yield points[0]
        yield from draw.sample(points[1:], len(points) - 1)

    def _around(self, draw: random.Random) -> Iterator[Mapping[str, str]]:
        """Every single change of the best point, the most telling tunables first; then the joined best changes."""
        yield {}
        here = self.space.values(self.best)
        changes = [
            self.space.macros({**here, one.name: value})
            for one in self.space.tunables
            for value in one.choices
            if value != here[one.name]
        ]
        yield from changes
        yield self.space.macros({**here, **self._favourites()})
        if all(point(one) in self.gains for one in changes):
            yield from self._scouts(draw)

    def _favourites(self) -> Mapping[str, str]:
        """For each tunable the value whose points did best."""
        found: dict[str, str] = {}
        for one in self.space.tunables:
            reached: dict[str, float] = {}
            for tried, gain in self.gains.items():
                value = dict(tried).get(one.name, one.default)
                reached[value] = max(reached.get(value, 0.0), gain or 0.0)
            if reached:
                found[one.name] = max(reached, key=lambda value: reached[value])
        return found

    def _scouts(self, draw: random.Random) -> Iterator[Mapping[str, str]]:
        """Points by chance, as many as the search may still spend; beyond them the space counts as searched."""
        single = 2 + sum(len(one.choices) - 1 for one in self.space.tunables)
        spent = max(0, len(self.gains) - 2 * single)
        for _ in range(4 * max(0, SCOUTS - spent)):
            yield self.space.macros({one.name: draw.choice(one.choices) for one in self.space.tunables})
