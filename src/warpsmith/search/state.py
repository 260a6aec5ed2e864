"""The state of a run, computed from its finished generations.

Its size is bounded: ten thousand proposals take as much memory as a hundred.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

from warpsmith.base import digest
from warpsmith.languages.cuda import Novelty, read_space
from warpsmith.records import Lesson, Record, Verdict
from warpsmith.search.proposals import SEED, TRANSLATE, TUNE, BrokenKernel, latest_lessons, make_lesson
from warpsmith.search.proposals.evidence import describe_failure
from warpsmith.search.selection import Arm, Bandit, Population, RankedKernel, TunerTrials, point_of
from warpsmith.search.slots import Proposal, Result, Slot, SlotOutcome, harness_errors, outcome_word

MOST_BROKEN = 16
MOST_TUNED = 16  # sources whose tried points are kept
RIGHT = 0.1  # reward of a correct kernel that is no faster
SETTLED = (Verdict.PASS, Verdict.FAIL)  # other verdicts say nothing about the kernel


@dataclass
class SearchState:
    """The state of a run."""

    task: str
    bandit: Bandit
    population: Population = field(default_factory=Population)
    novelty: Novelty = field(default_factory=Novelty)
    lessons: list[Lesson] = field(default_factory=list)
    broken: OrderedDict[str, BrokenKernel] = field(default_factory=OrderedDict)
    chains: dict[int, BrokenKernel] = field(default_factory=dict)
    trials: OrderedDict[str, TunerTrials] = field(default_factory=OrderedDict)
    ideas: Counter[str] = field(default_factory=Counter)
    funnel: Counter[str] = field(default_factory=Counter)
    failures: deque[str] = field(default_factory=lambda: deque(maxlen=8))  # latest errors of models and of the harness
    generation: int = 0  # the next generation
    evolved: int = 0  # generations after the first kernel
    translations: int = 0  # rounds of translation
    evaluations: int = 0
    usd: float = 0.0
    idle: int = 0
    silent: int = 0  # generations in which every model failed
    out_of_budget: bool = False

    def add_generation(self, results: Sequence[Result]) -> list[Lesson]:
        """Add a whole generation, and return its new lessons."""
        before = self.population.best
        # By place, not by the order of results: the state of a resumed run must be the same.
        ordered = sorted(results, key=lambda one: one.slot.place)
        learned = [lesson for one in ordered if (lesson := self._add(one, before)) is not None]
        self.lessons = latest_lessons([*self.lessons, *learned])
        self._count(ordered, before)
        return learned

    def reset_model_failures(self) -> None:
        """Ask models again in a resumed run: the server may work, or the budget may be larger."""
        self.silent, self.out_of_budget = 0, False

    def _add(self, one: Result, before: RankedKernel | None) -> Lesson | None:
        """Add a result; return its lesson or None."""
        proposal, slot = one.proposal, one.slot
        self.usd += proposal.usd
        self.funnel[outcome_word(one)] += 1
        self.ideas[slot.idea] += bool(slot.idea)
        if proposal.outcome in (SlotOutcome.MODEL_FAILED, SlotOutcome.OUT_OF_BUDGET):
            self.failures.append(proposal.detail)
            self.out_of_budget |= proposal.outcome is SlotOutcome.OUT_OF_BUDGET
        self.failures.extend(harness_errors(one))
        member = self._add_record(one) if one.record is not None else None
        self._keep_broken(one, member)
        over = self._gain_over_parent(slot, member, before)
        # Translations have one operator, so there is nothing for the bandit to learn. A fault of the harness is
        # nobody's loss.
        if slot.model and slot.operator != TRANSLATE and not harness_errors(one):
            # log2 of the gain: a doubling counts 1. A kernel that is right but slower still earns RIGHT.
            reward = RIGHT + max(0.0, log2(over)) if over else 0.0
            self.bandit.add_pull(Arm(slot.model, slot.operator), reward, proposal.price_usd)
        if one.record is None or slot.operator == SEED:
            return None
        return make_lesson(self.task, _describe_change(proposal), one.record, over)

    def _add_record(self, one: Result) -> RankedKernel | None:
        """Add a record to the population, and return its member if it has a time."""
        record = one.record
        assert record is not None
        candidate = record.candidate
        self.evaluations += 1
        # A quarantine or a fault says nothing about the kernel, so it may be proposed again.
        if record.verdict in SETTLED:
            self.novelty.add(candidate.source, candidate.macros)
            self.broken.pop(one.slot.broken, None)  # the repair replaces it, right or wrong
        else:
            self.novelty.add_undecided(candidate.source, candidate.macros)
        member = self.population.add(record, one.slot.generation, one.proposal.name)
        self._add_trial(record, member)
        return member

    def _add_trial(self, record: Record, member: RankedKernel | None) -> None:
        """Save the tried point; a failed evaluation of the harness counts as tried too."""
        source = record.candidate.source
        key = digest(source)
        if key not in self.trials:
            self.trials[key] = TunerTrials(read_space(source))
        self.trials[key].gains[point_of(record.candidate.macros)] = member.gain if member else None
        self.trials.move_to_end(key)
        # Memory stays bounded: the source that was tried least recently goes.
        while len(self.trials) > MOST_TUNED:
            self.trials.popitem(last=False)

    def _keep_broken(self, one: Result, member: RankedKernel | None) -> None:
        """Save a failed kernel for a repair, or for the next attempt of a translation."""
        found = find_broken(one)
        if member is not None or found is None or one.slot.operator == TUNE:
            return
        if one.slot.operator == TRANSLATE:
            self.chains[one.slot.place] = found
            return
        if one.proposal.outcome is SlotOutcome.BAD_ANSWER:  # there is no kernel to repair
            return
        self.broken[one.slot.name] = found
        while len(self.broken) > MOST_BROKEN:
            self.broken.popitem(last=False)

    def _gain_over_parent(self, slot: Slot, member: RankedKernel | None, before: RankedKernel | None) -> float | None:
        """Return the gain over the best parent, or over the best kernel `before` if no parent is known."""
        if member is None:
            return None
        known = {one.id: one.gain for one in self.population.members}
        gains = [known[parent] for parent in slot.parents if parent in known]
        held = max(gains) if gains else before.gain if before else 1.0
        return member.gain / held

    def _count(self, results: Sequence[Result], before: RankedKernel | None) -> None:
        """Update the counters that the stop rules read."""
        operators = {one.slot.operator for one in results}
        self.generation = max((one.slot.generation for one in results), default=self.generation) + 1
        if TRANSLATE in operators:
            self.translations += 1
        elif operators and operators != {SEED}:
            self.evolved += 1
            best = self.population.best
            # 0.1 %: a smaller difference is noise, and must not reset the patience.
            better = best is not None and (before is None or best.gain > before.gain * 1.001)
            self.idle = 0 if better else self.idle + 1
        asked = [one for one in results if one.slot.model]
        if asked:
            failed = all(one.proposal.outcome is SlotOutcome.MODEL_FAILED for one in asked)
            self.silent = self.silent + 1 if failed else 0


def find_broken(one: Result) -> BrokenKernel | None:
    """Return the failed kernel of a slot with its evidence, or None."""
    if one.record is not None:
        blameless = one.record.ended is None or one.record.blameless
        return None if blameless else BrokenKernel(one.record.candidate.source, describe_failure(one.record))
    if one.proposal.outcome in (SlotOutcome.BAD_ANSWER, SlotOutcome.STOPPED):
        return BrokenKernel(one.proposal.source, one.proposal.detail)
    return None


def _describe_change(proposal: Proposal) -> str:
    """Return the change that a slot made, for a lesson."""
    slot = proposal.slot
    if slot.operator == TUNE:
        return "tuned " + " ".join(f"{name}={value}" for name, value in sorted(slot.macros.items()))
    return " ".join(part for part in (slot.operator, proposal.name, f"[{slot.idea}]" if slot.idea else "") if part)


def add_generations(state: SearchState, generations: Iterable[Sequence[Result]]) -> None:
    """Add finished generations, oldest first."""
    for results in generations:
        state.add_generation(results)
