"""Which calls are made, in which order, as data: everything follows from one secret seed. Knows no torch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeVar

from warpsmith.base import UsageError
from warpsmith.records import Case, Direction, Dtype, Family, Group, Task, Trial, Twist
from warpsmith.tasks.inputs import (
    LONG as LONG_NAME,
    SCHEME,
    KeyedRandom,
    heldout_cases,
    input_seed,
    long_cases,
    longest_cases,
    secret_source,
)

SLOTS = 4
HELDOUT_DRAWS = 2  # of each held-out shape
REDRAWS = 64  # tries to find held-out shapes that are small enough
LONG, SHORT = (104, 152), (8, 16)  # calls of a streak
LIGHT = 1e5  # work of a case that can be called a hundred times on the virtual GPU
FEW = 12  # draws of a streak where solving them takes longer than calling
GATE = (Family.ONE_HOT, Family.NORMAL)
# What may not be taken for granted: that inputs come once, and forward that no exponential overflows. Gradients of such
# inputs are differences of large numbers, and say little.
TWISTS = {
    Direction.FORWARD: (Twist.NUDGED, Twist.SHUFFLED, Twist.PEAKED),
    Direction.BACKWARD: (Twist.NUDGED, Twist.SHUFFLED),
}
T = TypeVar("T")


@dataclass(frozen=True)
class PlannedCall:
    """One call: its draw, the buffers it uses, whether the very same arguments were given before, and of a streak."""

    trial: Trial
    slot: int = 0
    again: bool = False
    streak: bool = False


@dataclass(frozen=True)
class PlanScope:
    """What a plan covers: groups of cases, how many are tested for memory, and the largest held-out work."""

    groups: tuple[Group, ...] = (Group.SMOKE, Group.HELDOUT)
    remembered: int = 2
    heldout_work: float | None = None  # floating-point operations, or elements where the task has no formula
    light: float = LIGHT
    scheme: int = SCHEME  # how everything follows from the seed
    brief: bool = False  # one draw of each case and nothing else: for what only comes before the check


def usual_groups(task: Task, groups: tuple[Group, ...] = PlanScope.groups) -> tuple[Group, ...]:
    """The groups; a task that has no case of them is checked on whatever cases it has."""
    written = {case.group for case in task.cases}
    return groups if written & set(groups) else (task.cases[0].group, Group.HELDOUT)


def plan_steps(task: Task, direction: Direction, scope: PlanScope, seed: int) -> tuple[PlannedCall, ...]:
    """The calls that a secret seed stands for, always the same ones, in its own order."""
    draw = secret_source(seed, "plan", scope.scheme)
    cases = chosen(task, direction, scope, draw)
    if not cases:
        raise UsageError(f"Task {task.name} has no case in {', '.join(scope.groups)}; it has {_groups(task)}.")
    if scope.brief:
        return tuple(step for case in cases for step in _solos(case, draw)[:1])
    episodes = [[step] for case in cases for step in _solos(case, draw)]
    fixed = [case for case in cases if case.group is not Group.HELDOUT] or list(cases)
    tested = draw.sample(fixed, min(scope.remembered, len(fixed)))
    episodes += [_memory(case, draw.choice(fixed), TWISTS[direction], draw) for case in tested]
    episodes += [[step] for case in fixed for step in _enlarged(case, TWISTS[direction], draw)]
    episodes += [[step] for step in _precise(task, fixed, draw)]
    if scope.scheme >= SCHEME and task.multiplies_matrices:
        episodes += [[_few_terms(case, draw)] for case in cases if not case.name.startswith(LONG_NAME)]
    mixed, at = _merged(episodes, draw), draw.randrange(sum(map(len, episodes)) + 1)
    return (*mixed[:at], *_streak(task, direction, fixed, scope.light, draw), *mixed[at:])


def chosen(task: Task, direction: Direction, scope: PlanScope, draw: random.Random) -> tuple[Case, ...]:
    """The cases of a scope, held-out shapes drawn."""
    written = tuple(case for group in scope.groups for case in task.group(group))
    if Group.HELDOUT not in scope.groups or task.heldout is None:
        return written
    drawn = _heldout(task, direction, scope.heldout_work, draw)
    return (*written, *drawn, *([] if scope.brief else _long(task, direction, scope, draw)))


def work(task: Task, direction: Direction, case: Case) -> float:
    """How much a case costs: its operations by the task's formula, else the product of its axes."""
    flops = task.flops(direction, case)
    return float(prod(case.axes.values())) if flops is None else flops


def _heldout(task: Task, direction: Direction, most: float | None, draw: random.Random) -> list[Case]:
    """Held-out cases place by place; with a bound, the first draw below it, or the smallest seen."""
    best = list(heldout_cases(task, draw.getrandbits(62)))
    if most is None:
        return best
    cost = partial(work, task, direction)
    for _ in range(REDRAWS):
        if all(cost(case) <= most for case in best):
            break
        pairs = zip(best, heldout_cases(task, draw.getrandbits(62)), strict=True)
        best = [old if cost(old) <= most else min(old, new, key=cost) for old, new in pairs]
    return best


def _long(task: Task, direction: Direction, scope: PlanScope, draw: random.Random) -> list[Case]:
    """Long sums, as far as the bound allows; by the first scheme in 16-bit types alone."""
    most = scope.heldout_work

    def fits(case: Case) -> bool:
        return most is None or work(task, direction, case) <= most

    if scope.scheme >= SCHEME:
        return list(longest_cases(task, direction, draw, fits))
    return [case for case in long_cases(task, draw.getrandbits(62)) if fits(case)]


def _solos(case: Case, draw: random.Random) -> list[PlannedCall]:
    """Draws that take every init and every family of a case at least once; of a held-out one, two."""
    inits, families = _mixed(case.inits, draw), _mixed(case.families, draw)
    count = HELDOUT_DRAWS if case.group is Group.HELDOUT else max(len(inits), len(families))
    if isinstance(draw, KeyedRandom) and case.name.startswith(LONG_NAME):
        count = 1  # one is dear enough
    return [
        PlannedCall(
            _trial(case, draw, init=inits[i % len(inits)], family=families[i % len(families)]), draw.randrange(SLOTS)
        )
        for i in range(count)
    ]


def _memory(case: Case, other: Case, twists: Sequence[Twist], draw: random.Random) -> list[PlannedCall]:
    """In one slot: A, A after each twist in any order, another case, A again."""
    family = Family.NORMAL if Family.NORMAL in case.families else case.families[0]
    first = PlannedCall(_trial(case, draw, init=case.inits[0], family=family), draw.randrange(SLOTS))
    mixed = _mixed(twists, draw)
    twisted = [replace(first, trial=first.trial.model_copy(update={"twist": twist})) for twist in mixed]
    between = PlannedCall(_trial(other, draw, init=other.inits[0], family=other.families[0]), first.slot)
    return [first, *twisted, between, replace(first, again=True)]


def _enlarged(case: Case, twists: Sequence[Twist], draw: random.Random) -> list[PlannedCall]:
    """A draw of its own for each twist that makes something large: by chance one may not show."""
    large = [twist for twist in twists if twist.enlarges]
    plain = _trial(case, draw, case.inits[0], case.families[0])
    return [
        PlannedCall(plain.model_copy(update={"twist": twist, "seed": input_seed(draw)}), draw.randrange(SLOTS))
        for twist in large
    ]


def _few_terms(case: Case, draw: random.Random) -> PlannedCall:
    """A draw whose sums live on a random few terms: what is narrow for a share of the terms shows in some of them."""
    return PlannedCall(_trial(case, draw, case.inits[0], Family.BLOCK_ONE_HOT), draw.randrange(SLOTS))


def _streak(
    task: Task, direction: Direction, cases: Sequence[Case], light: float, draw: random.Random
) -> list[PlannedCall]:
    """The cheapest case again and again, as a timing loop calls, more often than a kernel may think a check does."""
    case = min(cases, key=partial(work, task, direction))
    cost = work(task, direction, case)
    count = draw.randint(*(LONG if cost <= light else SHORT))
    drawn = [
        _trial(case, draw, draw.choice(case.inits), draw.choice(case.families))
        for _ in range(count if cost <= LIGHT else min(count, FEW))
    ]
    return [
        PlannedCall(drawn[i] if i < len(drawn) else draw.choice(drawn), draw.randrange(SLOTS), streak=True)
        for i in range(count)
    ]


def _precise(task: Task, cases: Sequence[Case], draw: random.Random) -> list[PlannedCall]:
    """The precision gate: full mantissas, and one-hot rows where float32 is all but exact and TF32 is off by 2e-4."""
    wide = [case for case in cases if case.dtype is Dtype.FLOAT32]
    if task.precision.tf32 or not wide or not task.forward.is_product:
        return []
    case = draw.choice(wide)
    gate = [PlannedCall(_trial(case, draw, case.inits[0], family), draw.randrange(SLOTS)) for family in GATE]
    return [*gate, *_scaled(task, wide, draw)]


def _scaled(task: Task, cases: Sequence[Case], draw: random.Random) -> list[PlannedCall]:
    """Several inputs past what float16 holds; of one input, and of parameters, families tell."""
    if not task.forward.pairs_inputs:
        return []
    plain = [_trial(case, draw, case.inits[0], Family.NORMAL) for case in cases]
    return [PlannedCall(one.model_copy(update={"twist": Twist.SCALED}), draw.randrange(SLOTS)) for one in plain]


def _trial(case: Case, draw: random.Random, init: object, family: object) -> Trial:
    return Trial.model_validate({"case": case, "init": init, "family": family, "seed": input_seed(draw)})


def _mixed(values: Sequence[T], draw: random.Random) -> list[T]:
    return draw.sample(list(values), len(values))


def _merged(episodes: Sequence[Sequence[PlannedCall]], draw: random.Random) -> list[PlannedCall]:
    """All episodes at once in a random order that keeps the order inside each."""
    places = [number for number, episode in enumerate(episodes) for _ in episode]
    draw.shuffle(places)
    waiting = [list(episode) for episode in episodes]
    return [waiting[number].pop(0) for number in places]


def _groups(task: Task) -> str:
    return ", ".join(dict.fromkeys(case.group.value for case in task.cases))
