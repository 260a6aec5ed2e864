"""What a run knows, folded from its finished generations in order, so that a resumed run knows the same.

Everything here is bounded: a run of ten thousand proposals holds as much as one of a hundred.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

from warpsmith.base import digest
from warpsmith.languages.cuda import Novelty, read_space
from warpsmith.records import Lesson, Record, Verdict
from warpsmith.search.proposals import SEED, TRANSLATE, TUNE, Broken, kept, lesson_of
from warpsmith.search.proposals.evidence import evidence
from warpsmith.search.selection import Arm, Bandit, Population, RankedKernel, Trials, point
from warpsmith.search.slot import Proposal, Slot, SlotOutcome

MOST_BROKEN = 16
MOST_TUNED = 16  # sources whose points are remembered
RIGHT = 0.1  # what a correct kernel pays that is no faster
SETTLED = (Verdict.PASS, Verdict.FAIL)  # a quarantine or a fault of ours says nothing of a kernel


@dataclass(frozen=True)
class Result:
    """A finished slot: what came of it and its record, if it was evaluated."""

    proposal: Proposal
    record: Record | None = None

    @property
    def slot(self) -> Slot:
        """The slot."""
        return self.proposal.slot


@dataclass
class SearchState:
    """The knowledge of a run."""

    task: str
    bandit: Bandit
    population: Population = field(default_factory=Population)
    novelty: Novelty = field(default_factory=Novelty)
    lessons: list[Lesson] = field(default_factory=list)
    broken: OrderedDict[str, Broken] = field(default_factory=OrderedDict)
    chains: dict[int, Broken] = field(default_factory=dict)
    trials: OrderedDict[str, Trials] = field(default_factory=OrderedDict)
    ideas: Counter[str] = field(default_factory=Counter)
    funnel: Counter[str] = field(default_factory=Counter)
    failures: deque[str] = field(default_factory=lambda: deque(maxlen=8))  # last words of models, and mishaps
    generation: int = 0  # the next one
    evolved: int = 0  # generations after the first kernel was there
    translations: int = 0  # rounds of translation
    evaluations: int = 0
    usd: float = 0.0
    idle: int = 0
    silent: int = 0  # generations in which every model failed
    out_of_budget: bool = False

    def absorb(self, results: Sequence[Result]) -> list[Lesson]:
        """Take a whole generation in, place by place; the new lessons come back."""
        before = self.population.best
        ordered = sorted(results, key=lambda one: one.slot.place)
        learned = [lesson for one in ordered if (lesson := self._take(one, before)) is not None]
        self.lessons = kept([*self.lessons, *learned])
        self._count(ordered, before)
        return learned

    def hope(self) -> None:
        """Whoever goes on with a run may have mended a server or raised the budget: models are asked again."""
        self.silent, self.out_of_budget = 0, False

    def _take(self, one: Result, before: RankedKernel | None) -> Lesson | None:
        proposal, slot = one.proposal, one.slot
        self.usd += proposal.usd
        self.funnel[verdict_word(one)] += 1
        self.ideas[slot.idea] += bool(slot.idea)
        if proposal.outcome in (SlotOutcome.MODEL_FAILED, SlotOutcome.OUT_OF_BUDGET):
            self.failures.append(proposal.detail)
            self.out_of_budget |= proposal.outcome is SlotOutcome.OUT_OF_BUDGET
        self.failures.extend(mishap(one))
        member = self._record(one) if one.record is not None else None
        self._fault(one, member)
        over = self._over_parent(slot, member, before)
        if slot.model and slot.operator != TRANSLATE and not mishap(one):
            reward = RIGHT + max(0.0, log2(over)) if over else 0.0
            self.bandit.tell(Arm(slot.model, slot.operator), reward, proposal.price_usd)
        if one.record is None or slot.operator == SEED:
            return None
        return lesson_of(self.task, _what(proposal), one.record, over)

    def _record(self, one: Result) -> RankedKernel | None:
        record = one.record
        assert record is not None
        candidate = record.candidate
        self.evaluations += 1
        if record.verdict in SETTLED:
            self.novelty.add(candidate.source, candidate.macros)
            self.broken.pop(one.slot.broken, None)  # its repair stands for it, right or wrong
        else:
            self.novelty.add_undecided(candidate.source, candidate.macros)
        member = self.population.add(record, one.slot.generation, one.proposal.name)
        self._trial(record, member)
        return member

    def _trial(self, record: Record, member: RankedKernel | None) -> None:
        """Remember the point; a mishap says nothing of it, but it is not tried again."""
        source = record.candidate.source
        key = digest(source)
        if key not in self.trials:
            self.trials[key] = Trials(read_space(source))
        self.trials[key].gains[point(record.candidate.macros)] = member.gain if member else None
        self.trials.move_to_end(key)
        while len(self.trials) > MOST_TUNED:
            self.trials.popitem(last=False)

    def _fault(self, one: Result, member: RankedKernel | None) -> None:
        """Keep what went wrong, for a repair or for the next attempt of a translation."""
        found = broken_of(one)
        if member is not None or found is None or one.slot.operator == TUNE:
            return
        if one.slot.operator == TRANSLATE:
            self.chains[one.slot.place] = found
            return
        if one.proposal.outcome is SlotOutcome.BAD_ANSWER:  # holds no kernel that could be repaired
            return
        self.broken[one.slot.name] = found
        while len(self.broken) > MOST_BROKEN:
            self.broken.popitem(last=False)

    def _over_parent(self, slot: Slot, member: RankedKernel | None, before: RankedKernel | None) -> float | None:
        """The gain over the best parent; where it has none that is known, over the best kernel `before` it."""
        if member is None:
            return None
        known = {one.id: one.gain for one in self.population.members}
        gains = [known[parent] for parent in slot.parents if parent in known]
        held = max(gains) if gains else before.gain if before else 1.0
        return member.gain / held

    def _count(self, results: Sequence[Result], before: RankedKernel | None) -> None:
        operators = {one.slot.operator for one in results}
        self.generation = max((one.slot.generation for one in results), default=self.generation) + 1
        if TRANSLATE in operators:
            self.translations += 1
        elif operators and operators != {SEED}:
            self.evolved += 1
            best = self.population.best
            better = best is not None and (before is None or best.gain > before.gain * 1.001)
            self.idle = 0 if better else self.idle + 1
        asked = [one for one in results if one.slot.model]
        if asked:
            failed = all(one.proposal.outcome is SlotOutcome.MODEL_FAILED for one in asked)
            self.silent = self.silent + 1 if failed else 0


def broken_of(one: Result) -> Broken | None:
    """The failed kernel of a slot with its evidence; None when it has none to repair."""
    if one.record is not None:
        blameless = one.record.ended is None or one.record.blameless
        return None if blameless else Broken(one.record.candidate.source, evidence(one.record))
    if one.proposal.outcome in (SlotOutcome.BAD_ANSWER, SlotOutcome.STOPPED):
        return Broken(one.proposal.source, one.proposal.detail)
    return None


def mishap(one: Result) -> tuple[str, ...]:
    """What went wrong in a slot's evaluation, if anything, for which neither its kernel nor its model is to blame."""
    result = one.record.ended if one.record is not None else None
    return (result.detail,) if result is not None and result.blameless else ()


def verdict_word(one: Result) -> str:
    """How a slot counts in the funnel: its outcome, or its record's verdict with the reason."""
    if one.record is None:
        return one.proposal.outcome.value
    result = one.record.ended
    return one.record.concluded.value if result is None else f"{result.verdict.value} ({result.reason})"


def _what(proposal: Proposal) -> str:
    """What was tried, in words."""
    slot = proposal.slot
    if slot.operator == TUNE:
        return "tuned " + " ".join(f"{name}={value}" for name, value in sorted(slot.macros.items()))
    return " ".join(part for part in (slot.operator, proposal.name, f"[{slot.idea}]" if slot.idea else "") if part)


def fold(state: SearchState, generations: Iterable[Sequence[Result]]) -> None:
    """Take in finished generations, oldest first."""
    for results in generations:
        state.absorb(results)
