"""Who is timed: a compiled candidate, what it is for, and fresh calls of it."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.records import Case, Direction, Family, Task, Trial
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.opened import OpenTask
from warpsmith.tasks.program import Problem

OTHERS = (Family.UNIFORM, Family.SORTED)  # families that fit shapes of any size


@dataclass(frozen=True)
class Subject:
    """A compiled candidate and what it is for."""

    opened: OpenTask
    target: str
    task: Task
    direction: Direction
    artifact: Path
    plain: bool
    launches: int  # a call's, as the virtual GPU counted them
    _outlines: dict[str, Problem] = field(default_factory=dict, compare=False, repr=False)

    def calls(self, case: Case) -> Iterator[Problem]:
        """Endless fresh calls of a case."""
        return problems(self.opened, self.direction, Trial(case=case), secrets.randbits(31), "cuda")

    def others(self, case: Case) -> list[Problem]:
        """Calls of the same shapes by secret draws: other values, another family of inputs, other parameters."""
        written = self.task.cases
        families = [family for family in OTHERS if any(family in one.families for one in written)]
        inits = sorted({init for one in written for init in one.inits})
        trials = [
            Trial(case=case, family=family, init=secrets.choice(inits), seed=secrets.randbits(62))
            for family in (Family.NORMAL, *families[:1])
        ]
        return [next(problems(self.opened, self.direction, trial, secrets.randbits(31), "cuda")) for trial in trials]

    def outline(self, case: Case) -> Problem:
        """The shapes of such a call."""
        if case.name not in self._outlines:
            self._outlines[case.name] = outline(self.opened, self.direction, Trial(case=case))
        return self._outlines[case.name]
