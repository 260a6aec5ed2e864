"""The tuner: untried points of a kernel's space."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from warpsmith.languages.cuda import Space

EXHAUSTIVE = 24  # a space of at most so many points is tried completely
SCOUTS = 8  # random points after every single change was tried

Point = tuple[tuple[str, str], ...]


def point_of(macros: Mapping[str, str]) -> Point:
    """Return macros as a hashable point."""
    return tuple(sorted(macros.items()))


@dataclass
class TunerTrials:
    """The space of one source, and the gain of each tried point; None where it failed."""

    space: Space
    gains: dict[Point, float | None] = field(default_factory=dict)

    @property
    def best(self) -> Mapping[str, str]:
        """The macros of the best point; empty if no point was right."""
        timed = [(gain, one) for one, gain in self.gains.items() if gain is not None]
        return dict(max(timed, key=lambda pair: pair[0])[1]) if timed else {}

    def propose(self, count: int, draw: random.Random) -> list[Mapping[str, str]]:
        """Return up to `count` untried points: a small space whole, else around the best point."""
        order = self._all(draw) if self.space.size <= EXHAUSTIVE else self._around(draw)
        found: dict[Point, Mapping[str, str]] = {}
        for macros in order:
            if len(found) == count:
                break
            if point_of(macros) not in self.gains:
                found.setdefault(point_of(macros), macros)
        return list(found.values())

    def _all(self, draw: random.Random) -> Iterator[Mapping[str, str]]:
        """Yield the defaults, then all other points in random order."""
        points = list(self.space.points())
        yield points[0]
        yield from draw.sample(points[1:], len(points) - 1)

    def _around(self, draw: random.Random) -> Iterator[Mapping[str, str]]:
        """Yield every single change of the best point, then the best changes combined, then random points."""
        # The defaults come first: every gain is measured against them.
        yield {}
        here = self.space.values(self.best)
        changes = [
            self.space.macros({**here, one.name: value})
            for one in self.space.tunables
            for value in one.choices
            if value != here[one.name]
        ]
        yield from changes
        # Changes that helped alone may help together.
        yield self.space.macros({**here, **self._favourites()})
        # Random points are drawn only when all single changes are known.
        if all(point_of(one) in self.gains for one in changes):
            yield from self._scouts(draw)

    def _favourites(self) -> Mapping[str, str]:
        """Return for each tunable the value with the best gain."""
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
        """Yield random points until SCOUTS of them were tried; then the space counts as searched."""
        # The defaults, every single change, and the combination.
        single = 2 + sum(len(one.choices) - 1 for one in self.space.tunables)
        # Changes around a second best point are not random points, so both rounds are subtracted.
        spent = max(0, len(self.gains) - 2 * single)
        for _ in range(4 * max(0, SCOUTS - spent)):
            yield self.space.macros({one.name: draw.choice(one.choices) for one in self.space.tunables})
