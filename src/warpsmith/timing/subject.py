"""Who is timed: a compiled candidate, what it is for, and fresh calls of it."""

import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.records import Case, Direction, Family, Task, Trial, Twist
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.opened import OpenTask
from warpsmith.tasks.program import Problem

RANDOM = random.SystemRandom()
# Families that fit shapes of any size: those that are large, and those of other signs, spreads and orders.
LARGE = (Family.HUGE, Family.NEAR_OVERFLOW)
SPREAD = (Family.UNIFORM, Family.SORTED, Family.SPARSE, Family.ALTERNATING, Family.TINY)


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

    def others(self, case: Case) -> Iterator[tuple[Trial, Problem]]:
        """Endless calls of the same shapes by secret draws: of the families that the task is checked with, with other
        parameters, and with an element that stands out; of every three one of each kind that there is.
        """
        while True:
            for trial in RANDOM.sample(kinds := self._kinds(case), len(kinds)):
                yield trial, next(problems(self.opened, self.direction, trial, secrets.randbits(31), "cuda"))

    def _kinds(self, case: Case) -> list[Trial]:
        written = self.task.cases
        listed = {family for one in written for family in one.families}
        inits = sorted({init for one in written for init in one.inits})
        large, spread = ([family for family in kind if family in listed] for kind in (LARGE, SPREAD))
        families = [RANDOM.choice(kind or [Family.NORMAL]) for kind in (large, spread)]
        plain = [Trial(case=case, family=family, init=RANDOM.choice(inits)) for family in families]
        return [*plain, Trial(case=case, init=RANDOM.choice(inits), twist=Twist.NUDGED)]

    def outline(self, case: Case) -> Problem:
        """The shapes of such a call."""
        if case.name not in self._outlines:
            self._outlines[case.name] = outline(self.opened, self.direction, Trial(case=case))
        return self._outlines[case.name]
