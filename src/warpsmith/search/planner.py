"""A generation's slots, from state, configuration and seed."""

import random
from collections.abc import Sequence

from warpsmith.base import digest
from warpsmith.search.config import SearchConfig
from warpsmith.search.proposals import OPERATORS, SEED, TRANSLATE, TUNE, Idea, draw_idea, usable_operators
from warpsmith.search.selection import RankedKernel
from warpsmith.search.slots import Slot
from warpsmith.search.state import SearchState

TUNED_PARENTS = 3  # the tuner searches the spaces of so many of the best kernels


def draw_for(seed: int, *words: object) -> random.Random:
    """Return a generator that depends on the run's seed and the words alone.

    A resumed run draws the same numbers, whatever happened in between.
    """
    # The digest of the words is the seed, so a draw does not depend on how many numbers were drawn before.
    return random.Random(int(digest(str(seed), *(str(word) for word in words)), 16))


def plan(
    state: SearchState,
    config: SearchConfig,
    ideas: Sequence[Idea],
    models: Sequence[str],
    seed: int,
    has_start: bool,
    left: int | None = None,
) -> tuple[Slot, ...]:
    """Return the slots of the next generation; none if nothing can be proposed or no evaluation is left.

    `has_start` says whether the run begins with a kernel. `left` evaluations may be made; None is no bound.
    """
    generation = state.generation
    if left == 0:
        return ()
    if generation == 0 and has_start:
        return (Slot(generation=0, place=0, operator=SEED),)
    if not state.population.members:
        return _translation_slots(state, config, models)[:left]
    room = config.proposals if left is None else min(left, config.proposals)
    tunings = _tuner_slots(state, _tuner_count(config.tuner_share, room, models), seed)
    # If the tuner takes the whole budget, no model is asked for kernels that could not be evaluated.
    spare = 0 if len(tunings) == left else config.proposals - len(tunings)
    asked = _model_slots(state, ideas, models, seed, spare)
    slots = [*asked, *tunings]
    return tuple(slot.model_copy(update={"place": place}) for place, slot in enumerate(slots))


def _tuner_count(share: float, room: int, models: Sequence[str]) -> int:
    """Return how many slots the tuner gets: all without models, else its share, at least one."""
    if not models:
        return room
    return max(1, int(share * room)) if share else 0


def _translation_slots(state: SearchState, config: SearchConfig, models: Sequence[str]) -> tuple[Slot, ...]:
    """Return one slot for each draft, models in turn; none if every attempt was made."""
    if not models or state.out_of_budget or state.translations >= config.attempts:
        return ()
    turn = state.translations
    return tuple(
        Slot(
            generation=state.generation,
            place=place,
            operator=TRANSLATE,
            # With more models than drafts, each round begins with the next models.
            model=models[(place + turn * (len(models) > config.drafts)) % len(models)],
        )
        for place in range(config.drafts)
    )


def _tuner_slots(state: SearchState, count: int, seed: int) -> list[Slot]:
    """Return slots for untried points of the best kernels, the best kernel first."""
    slots: list[Slot] = []
    seen: set[str] = set()
    for member in state.population.ranked():
        # Points belong to a source: members with equal sources share one space.
        key = digest(member.record.candidate.source)
        if key in seen or key not in state.trials or len(slots) == count:
            continue
        seen.add(key)
        draw = draw_for(seed, "tune", state.generation, key)
        for macros in state.trials[key].propose(count - len(slots), draw):
            slots.append(_tuner_slot(state.generation, member, macros))
        if len(seen) == TUNED_PARENTS:
            break
    return slots


def _tuner_slot(generation: int, member: RankedKernel, macros: object) -> Slot:
    """Return the slot for one point of a member."""
    fields = {"generation": generation, "place": 0, "operator": TUNE, "parents": (member.id,), "macros": macros}
    return Slot.model_validate(fields)


def _model_slots(state: SearchState, ideas: Sequence[Idea], models: Sequence[str], seed: int, count: int) -> list[Slot]:
    """Return slots for models: the bandit chooses model and operator; parents and idea are drawn."""
    if not models or state.out_of_budget:
        return []
    allowed = usable_operators(len(state.population.members), len(state.broken))
    arms = [arm for arm in state.bandit.choose(count, allowed) if arm.model in models]
    # The latest failures first, whose evidence fits the present state.
    waiting = list(reversed(state.broken))
    slots: list[Slot] = []
    for place, arm in enumerate(arms):
        draw = draw_for(seed, "slot", state.generation, place)
        row = OPERATORS[arm.operator]
        # More repairs were chosen than kernels failed.
        if row.broken and not waiting:
            row = OPERATORS["improve"]
        parents = _draw_parents(state, row.parents, draw)
        slots.append(
            Slot(
                generation=state.generation,
                place=place,
                operator=row.name,
                model=arm.model,
                parents=tuple(one.id for one in parents),
                idea=_draw_idea(state, ideas, parents, draw) if row.idea else "",
                broken=waiting.pop(0) if row.broken else "",
            )
        )
    return slots


def _draw_parents(state: SearchState, count: int, draw: random.Random) -> list[RankedKernel]:
    """Draw different parents."""
    found: list[RankedKernel] = []
    for _ in range(count):
        one = state.population.draw_parent(draw, [other.id for other in found])
        if one is not None:
            found.append(one)
    return found


def _draw_idea(state: SearchState, ideas: Sequence[Idea], parents: Sequence[RankedKernel], draw: random.Random) -> str:
    """Draw an idea for the first parent, or for the best kernel."""
    best = parents[0] if parents else state.population.best
    binding = best.fitness.binding if best else ""
    return draw_idea(ideas, binding, state.ideas, draw).id
