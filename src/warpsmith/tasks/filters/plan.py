"""Samples that the filters use, and their soft time limit."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from warpsmith.records import Case, Family, Group, Origin, Task, Trial

CASES = 2  # the smallest cases of a task
TRIALS = 5  # draws whose outputs are looked at
SEED = 1009  # fixed: a report is the same tomorrow


@dataclass
class Clock:
    """The soft time limit of one report; optional work asks before it starts."""

    limit_s: float
    start_s: float = field(default_factory=time.monotonic)
    forward_s: float = 0.0  # the slowest call so far

    @property
    def spent_s(self) -> float:
        """Return the seconds since the report began."""
        return time.monotonic() - self.start_s

    def allows(self, forwards: float) -> bool:
        """Return whether the time left suffices for work as long as `forwards` forward calls."""
        return self.spent_s + forwards * self.forward_s <= self.limit_s


def plan_samples(cases: Sequence[Case]) -> tuple[Trial, ...]:
    """Return two seeds of the first case, then its other inits, the next case's, and more seeds."""
    first = cases[0]
    base, again = pair_of_seeds(first)
    rest = [
        Trial(case=case, init=init, family=representative_family(case), seed=SEED + 2 + place)
        for case in cases
        for place, init in enumerate(case.inits)
        if (case.name, init) != (first.name, first.inits[0])
    ]
    more = [base.model_copy(update={"seed": SEED + 100 + place}) for place in range(TRIALS)]
    return (base, again, *rest, *more)[:TRIALS]


def pair_of_seeds(case: Case) -> tuple[Trial, Trial]:
    """Return two seeds of one case."""
    base = Trial(case=case, init=case.inits[0], family=representative_family(case), seed=SEED)
    return base, base.model_copy(update={"seed": SEED + 1})


def author_cases(task: Task) -> list[Case]:
    """Return the smallest cases that the author wrote.

    Smoke and timing cases of a foreign task are generated and may be degenerate.
    """
    if task.origin is not Origin.SUITE:
        written = task.group(Group.DEV) or task.cases
        return sorted(written, key=_volume)[:CASES]
    distinct: dict[frozenset[tuple[str, int]], Case] = {}
    for case in sorted(task.cases, key=_volume):
        distinct.setdefault(frozenset(case.axes.items()), case)  # the first element type stands for all
    return list(distinct.values())[:CASES]


def light_case(task: Task) -> Case:
    """Return the smallest case of all."""
    return min(task.cases, key=_volume)


def representative_family(case: Case) -> Family:
    """Return the family that shows the function's usual behaviour, not its edges."""
    return Family.NORMAL if Family.NORMAL in case.families else case.families[0]


def _volume(case: Case) -> int:
    """Return the product of a case's sizes."""
    return prod(case.axes.values())
