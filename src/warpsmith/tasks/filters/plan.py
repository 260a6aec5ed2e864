"""Which draws the filters look at, and how long they may: small cases, several seeds and inits, a soft time limit."""

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
    """The soft limit of one report: optional work asks before it starts."""

    limit_s: float
    start_s: float = field(default_factory=time.monotonic)
    forward_s: float = 0.0  # the slowest call so far

    @property
    def spent_s(self) -> float:
        """Seconds since the report was begun."""
        return time.monotonic() - self.start_s

    def allows(self, forwards: float) -> bool:
        """Whether work worth so many forward calls fits into what is left."""
        return self.spent_s + forwards * self.forward_s <= self.limit_s


def trials(cases: Sequence[Case]) -> tuple[Trial, ...]:
    """Two seeds of the first case, then its other inits, the next case's, and more seeds."""
    first = cases[0]
    base, again = pair(first)
    rest = [
        Trial(case=case, init=init, family=plain_family(case), seed=SEED + 2 + place)
        for case in cases
        for place, init in enumerate(case.inits)
        if (case.name, init) != (first.name, first.inits[0])
    ]
    more = [base.model_copy(update={"seed": SEED + 100 + place}) for place in range(TRIALS)]
    return (base, again, *rest, *more)[:TRIALS]


def pair(case: Case) -> tuple[Trial, Trial]:
    """Two seeds of one case."""
    base = Trial(case=case, init=case.inits[0], family=plain_family(case), seed=SEED)
    return base, base.model_copy(update={"seed": SEED + 1})


def judged_cases(task: Task) -> list[Case]:
    """The smallest cases that the author wrote: of a foreign task smoke and timing are ours, and may be degenerate."""
    if task.origin is not Origin.SUITE:
        written = task.group(Group.DEV) or task.cases
        return sorted(written, key=_volume)[:CASES]
    distinct: dict[frozenset[tuple[str, int]], Case] = {}
    for case in sorted(task.cases, key=_volume):
        distinct.setdefault(frozenset(case.axes.items()), case)  # the first element type stands for all
    return list(distinct.values())[:CASES]


def light_case(task: Task) -> Case:
    """The smallest case of all, for what would take too long elsewhere."""
    return min(task.cases, key=_volume)


def plain_family(case: Case) -> Family:
    """The family that shows what the function does: tiny, huge and constant data show its edges."""
    return Family.NORMAL if Family.NORMAL in case.families else case.families[0]


def _volume(case: Case) -> int:
    return prod(case.axes.values())
