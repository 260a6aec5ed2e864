"""Which slots a generation has: a pure function of the run's state and its seed. Asks nobody."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsmith.base import digest
from warpsmith.search.proposals import OPERATORS, SEED, TRANSLATE, TUNE, Idea, sample, usable
from warpsmith.search.proposals.ideas import ideas
from warpsmith.search.selection import RankedKernel
from warpsmith.search.slot import Slot
from warpsmith.search.state import SearchState

TUNED_PARENTS = 3  # of the best kernels, those whose space the tuner searches


@dataclass(frozen=True)
class Shape:
    """How large generations are, and which ideas they draw from.

    `proposals` are made, at most `evaluate` of the models' ones are evaluated.
    """

    proposals: int = 8
    evaluate: int = 4
    drafts: int = 2
    attempts: int = 10
    tuned: float = 0.25  # of the slots for the tuner, while it has points and models are there
    ideas: tuple[Idea, ...] = field(default_factory=ideas)  # that suit the task and the GPU


def draw_for(seed: int, *words: object) -> random.Random:
    """A generator that depends on the run's seed and the place alone."""
    return random.Random(int(digest(str(seed), *(str(word) for word in words)), 16))


def plan(
    state: SearchState, shape: Shape, models: Sequence[str], seed: int, start: bool, left: int | None = None
) -> tuple[Slot, ...]:
    """The slots of the next generation; none when nobody has anything to propose, or no evaluation is left for it."""
    generation = state.generation
    if left == 0:
        return ()
    if generation == 0 and start:
        return (Slot(generation=0, place=0, operator=SEED),)
    if not state.population.members:
        return _translate(state, shape, models)[:left]
    room = shape.proposals if left is None else min(left, shape.proposals)
    tunings = _tunings(state, _tuner_share(shape.tuned, room, models), seed)
    spare = 0 if len(tunings) == left else shape.proposals - len(tunings)
    asked = _proposals(state, shape, models, seed, spare)
    slots = [*asked, *tunings]
    return tuple(slot.model_copy(update={"place": place}) for place, slot in enumerate(slots))


def _tuner_share(share: float, room: int, models: Sequence[str]) -> int:
    """How many slots the tuner may have: all without a model, else its share, and at least one of it."""
    if not models:
        return room
    return max(1, int(share * room)) if share else 0


def _translate(state: SearchState, shape: Shape, models: Sequence[str]) -> tuple[Slot, ...]:
    """One slot a draft, models in turn; none when every attempt is used up."""
    if not models or state.out_of_budget or state.translations >= shape.attempts:
        return ()
    turn = state.translations
    return tuple(
        Slot(
            generation=state.generation,
            place=place,
            operator=TRANSLATE,
            model=models[(place + turn * (len(models) > shape.drafts)) % len(models)],
        )
        for place in range(shape.drafts)
    )


def _tunings(state: SearchState, count: int, seed: int) -> list[Slot]:
    """Points of the best kernels' spaces, the best kernel's first."""
    slots: list[Slot] = []
    seen: set[str] = set()
    for member in state.population.ranked():
        key = digest(member.record.candidate.source)
        if key in seen or key not in state.trials or len(slots) == count:
            continue
        seen.add(key)
        draw = draw_for(seed, "tune", state.generation, key)
        for macros in state.trials[key].next(count - len(slots), draw):
            slots.append(_tuning(state.generation, member, macros))
        if len(seen) == TUNED_PARENTS:
            break
    return slots


def _tuning(generation: int, member: RankedKernel, macros: object) -> Slot:
    fields = {"generation": generation, "place": 0, "operator": TUNE, "parents": (member.id,), "macros": macros}
    return Slot.model_validate(fields)


def _proposals(state: SearchState, shape: Shape, models: Sequence[str], seed: int, count: int) -> list[Slot]:
    if not models or state.out_of_budget:
        return []
    allowed = usable(len(state.population.members), len(state.broken))
    arms = [arm for arm in state.bandit.choose(count, allowed) if arm.model in models]
    waiting = list(reversed(state.broken))
    slots: list[Slot] = []
    for place, arm in enumerate(arms):
        draw = draw_for(seed, "slot", state.generation, place)
        row = OPERATORS[arm.operator]
        if row.broken and not waiting:
            row = OPERATORS["improve"]
        parents = _parents(state, row.parents, draw)
        slots.append(
            Slot(
                generation=state.generation,
                place=place,
                operator=row.name,
                model=arm.model,
                parents=tuple(one.id for one in parents),
                idea=_idea(state, shape, parents, draw) if row.idea else "",
                broken=waiting.pop(0) if row.broken else "",
            )
        )
    return slots


def _parents(state: SearchState, count: int, draw: random.Random) -> list[RankedKernel]:
    found: list[RankedKernel] = []
    for _ in range(count):
        one = state.population.parent(draw, [other.id for other in found])
        if one is not None:
            found.append(one)
    return found


def _idea(state: SearchState, shape: Shape, parents: Sequence[RankedKernel], draw: random.Random) -> str:
    best = parents[0] if parents else state.population.best
    binding = best.fitness.binding if best else ""
    return sample(shape.ideas, binding, state.ideas, draw).id
