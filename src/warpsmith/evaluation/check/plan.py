"""The calls of a check and their order, all derived from one secret seed. Imports no torch."""

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
LONG_DRAWS = 5
REDRAWS = 64  # tries to find held-out shapes that are small enough
LONG, SHORT = (104, 152), (8, 16)  # calls of a streak
LIGHT = 1e5  # work of a case that can be called a hundred times on the virtual GPU
FEW = 12  # test inputs of a streak if solving them takes longer than calling
GATE = (Family.ONE_HOT, Family.NORMAL)
# Perturbations against results that are stored by input, and, forward only, against exponentials that overflow:
# gradients of such inputs are differences of large numbers, whose errors show nothing.
TWISTS = {
    Direction.FORWARD: (Twist.NUDGED, Twist.SHUFFLED, Twist.PEAKED),
    Direction.BACKWARD: (Twist.NUDGED, Twist.SHUFFLED),
}
T = TypeVar("T")


@dataclass(frozen=True)
class PlannedCall:
    """One call: its test input, its buffers, whether its arguments come again, and whether it is in the streak."""

    trial: Trial
    slot: int = 0
    again: bool = False
    streak: bool = False


@dataclass(frozen=True)
class PlanScope:
    """What a plan covers: the groups of cases, the cases with a memory test, and the largest held-out work."""

    groups: tuple[Group, ...] = (Group.SMOKE, Group.HELDOUT)
    remembered: int = 2
    heldout_work: float | None = None  # floating-point operations, or elements where the task has no formula
    light: float = LIGHT
    scheme: int = SCHEME  # how everything follows from the seed
    brief: bool = False  # one draw of each case and nothing else: for what only comes before the check


def groups_with_cases(task: Task, groups: tuple[Group, ...] = PlanScope.groups) -> tuple[Group, ...]:
    """Return the groups, or the first case's group."""
    written = {case.group for case in task.cases}
    return groups if written & set(groups) else (task.cases[0].group, Group.HELDOUT)


def plan_steps(task: Task, direction: Direction, scope: PlanScope, seed: int) -> tuple[PlannedCall, ...]:
    """Return a secret seed's calls; raise UsageError without cases."""
    draw = secret_source(seed, "plan", scope.scheme)
    cases = planned_cases(task, direction, scope, draw)
    if not cases:
        raise UsageError(f"Task {task.name} has no case in {', '.join(scope.groups)}; it has {_group_names(task)}.")
    if scope.brief:
        return tuple(step for case in cases for step in _case_calls(case, draw)[:1])
    episodes = [[step] for case in cases for step in _case_calls(case, draw, _long_draws(task, case))]
    fixed = [case for case in cases if case.group is not Group.HELDOUT] or list(cases)
    tested = draw.sample(fixed, min(scope.remembered, len(fixed)))
    episodes += [_memory_calls(case, draw.choice(fixed), TWISTS[direction], draw) for case in tested]
    episodes += [[step] for case in fixed for step in _enlarged_calls(case, TWISTS[direction], draw)]
    episodes += [[step] for step in _precision_calls(task, fixed, draw)]
    if scope.scheme >= SCHEME and task.multiplies_matrices:
        episodes += [[_few_terms_call(case, draw)] for case in cases if not case.name.startswith(LONG_NAME)]
    mixed, at = _interleaved(episodes, draw), draw.randrange(sum(map(len, episodes)) + 1)
    return (*mixed[:at], *_streak_calls(task, direction, fixed, scope.light, draw), *mixed[at:])


def planned_cases(task: Task, direction: Direction, scope: PlanScope, draw: random.Random) -> tuple[Case, ...]:
    """Return the cases of a scope; held-out shapes are drawn."""
    written = tuple(case for group in scope.groups for case in task.group(group))
    if Group.HELDOUT not in scope.groups or task.heldout is None:
        return written
    drawn = _heldout_cases(task, direction, scope.heldout_work, draw)
    return (*written, *drawn, *([] if scope.brief else _long_cases(task, direction, scope, draw)))


def case_work(task: Task, direction: Direction, case: Case) -> float:
    """Return a case's operations, else the product of its axes."""
    flops = task.flops(direction, case)
    return float(prod(case.axes.values())) if flops is None else flops


def _heldout_cases(task: Task, direction: Direction, most: float | None, draw: random.Random) -> list[Case]:
    """Draw held-out cases, below a limit if possible.

    With a limit, the first draw of each place below it counts, else the smallest draw.
    """
    best = list(heldout_cases(task, draw.getrandbits(62)))
    if most is None:
        return best
    cost = partial(case_work, task, direction)
    for _ in range(REDRAWS):
        if all(cost(case) <= most for case in best):
            break
        pairs = zip(best, heldout_cases(task, draw.getrandbits(62)), strict=True)
        best = [old if cost(old) <= most else min(old, new, key=cost) for old, new in pairs]
    return best


def _long_cases(task: Task, direction: Direction, scope: PlanScope, draw: random.Random) -> list[Case]:
    """Draw cases with long sums within the limit.

    In the first scheme of seeds only in 16-bit types.
    """
    most = scope.heldout_work

    def fits(case: Case) -> bool:
        """Return whether a case is within the limit of work."""
        return most is None or case_work(task, direction, case) <= most

    if scope.scheme >= SCHEME:
        return list(longest_cases(task, direction, draw, fits))
    return [case for case in long_cases(task, draw.getrandbits(62)) if fits(case)]


def _long_draws(task: Task, case: Case) -> int:
    """Return the number of calls of a case with long sums: one for products, which are slow to compute.

    A sum in half precision exceeds the bound of 16-bit results in three of four calls.
    """
    return 1 if task.multiplies_matrices or case.dtype.bytes > 2 else LONG_DRAWS


def _case_calls(case: Case, draw: random.Random, long_draws: int = 1) -> list[PlannedCall]:
    """Return calls with every initialization and family of a case."""
    inits, families = _shuffled(case.inits, draw), _shuffled(case.families, draw)
    count = HELDOUT_DRAWS if case.group is Group.HELDOUT else max(len(inits), len(families))
    if isinstance(draw, KeyedRandom) and case.name.startswith(LONG_NAME):
        count = long_draws
    return [
        PlannedCall(
            _draw_trial(case, draw, init=inits[i % len(inits)], family=families[i % len(families)]),
            draw.randrange(SLOTS),
        )
        for i in range(count)
    ]


def _memory_calls(case: Case, other: Case, twists: Sequence[Twist], draw: random.Random) -> list[PlannedCall]:
    """Return calls that show results stored by input.

    All in one slot: A, A after each perturbation, another case, A again.
    """
    family = Family.NORMAL if Family.NORMAL in case.families else case.families[0]
    first = PlannedCall(_draw_trial(case, draw, init=case.inits[0], family=family), draw.randrange(SLOTS))
    mixed = _shuffled(twists, draw)
    twisted = [replace(first, trial=first.trial.model_copy(update={"twist": twist})) for twist in mixed]
    between = PlannedCall(_draw_trial(other, draw, init=other.inits[0], family=other.families[0]), first.slot)
    return [first, *twisted, between, replace(first, again=True)]


def _enlarged_calls(case: Case, twists: Sequence[Twist], draw: random.Random) -> list[PlannedCall]:
    """Return one more call for each enlarging perturbation.

    One draw may miss a defect by chance.
    """
    large = [twist for twist in twists if twist.enlarges]
    plain = _draw_trial(case, draw, case.inits[0], case.families[0])
    return [
        PlannedCall(plain.model_copy(update={"twist": twist, "seed": input_seed(draw)}), draw.randrange(SLOTS))
        for twist in large
    ]


def _few_terms_call(case: Case, draw: random.Random) -> PlannedCall:
    """Return a call whose sums have few non-zero terms.

    Narrow arithmetic for a share of the terms then shows.
    """
    return PlannedCall(_draw_trial(case, draw, case.inits[0], Family.BLOCK_ONE_HOT), draw.randrange(SLOTS))


def _streak_calls(
    task: Task, direction: Direction, cases: Sequence[Case], light: float, draw: random.Random
) -> list[PlannedCall]:
    """Return many calls of the cheapest case.

    More than a kernel may expect of a check: a kernel may be right for its first calls only.
    """
    case = min(cases, key=partial(case_work, task, direction))
    cost = case_work(task, direction, case)
    count = draw.randint(*(LONG if cost <= light else SHORT))
    drawn = [
        _draw_trial(case, draw, draw.choice(case.inits), draw.choice(case.families))
        for _ in range(count if cost <= LIGHT else min(count, FEW))
    ]
    return [
        PlannedCall(drawn[i] if i < len(drawn) else draw.choice(drawn), draw.randrange(SLOTS), streak=True)
        for i in range(count)
    ]


def _precision_calls(task: Task, cases: Sequence[Case], draw: random.Random) -> list[PlannedCall]:
    """Return the calls of the precision gate.

    Full mantissas, and one-hot rows where TF32 has an error of 2e-4.
    """
    wide = [case for case in cases if case.dtype is Dtype.FLOAT32]
    if task.precision.tf32 or not wide or not task.forward.is_product:
        return []
    case = draw.choice(wide)
    gate = [PlannedCall(_draw_trial(case, draw, case.inits[0], family), draw.randrange(SLOTS)) for family in GATE]
    return [*gate, *_scaled_calls(task, wide, draw)]


def _scaled_calls(task: Task, cases: Sequence[Case], draw: random.Random) -> list[PlannedCall]:
    """Return calls with inputs beyond the range of float16."""
    if not task.forward.pairs_inputs:
        return []
    plain = [_draw_trial(case, draw, case.inits[0], Family.NORMAL) for case in cases]
    return [PlannedCall(one.model_copy(update={"twist": Twist.SCALED}), draw.randrange(SLOTS)) for one in plain]


def _draw_trial(case: Case, draw: random.Random, init: object, family: object) -> Trial:
    """Draw a test input of a case."""
    return Trial.model_validate({"case": case, "init": init, "family": family, "seed": input_seed(draw)})


def _shuffled(values: Sequence[T], draw: random.Random) -> list[T]:
    """Return the values in random order."""
    return draw.sample(list(values), len(values))


def _interleaved(episodes: Sequence[Sequence[PlannedCall]], draw: random.Random) -> list[PlannedCall]:
    """Merge all episodes in a random order that keeps the order inside each."""
    places = [number for number, episode in enumerate(episodes) for _ in episode]
    draw.shuffle(places)
    waiting = [list(episode) for episode in episodes]
    return [waiting[number].pop(0) for number in places]


def _group_names(task: Task) -> str:
    """Return the groups of a task's cases as text."""
    return ", ".join(dict.fromkeys(case.group.value for case in task.cases))
