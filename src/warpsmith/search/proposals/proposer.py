"""From a slot to a candidate: a model's answer read, a point of the tuner set, the seed taken. Evaluates nothing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.languages import language_of
from warpsmith.languages.cuda import format_macros, read_space, with_macros
from warpsmith.llm import BudgetSpent, ModelAnswer, ModelError, Prompt, ReplayMismatch
from warpsmith.records import Candidate
from warpsmith.search.planner import draw_for
from warpsmith.search.proposals.answer import AnswerFault, Draft, UnusableProposal, read_answer
from warpsmith.search.proposals.ideas import ideas
from warpsmith.search.proposals.lessons import notes
from warpsmith.search.proposals.operators import OPERATORS, SEED, TRANSLATE, TUNE
from warpsmith.search.proposals.prompts import Broken, Material, PromptContext, proposal, summary, translation
from warpsmith.search.slot import Proposal, Slot, SlotOutcome
from warpsmith.search.state import SearchState

Ask = Callable[[Slot, Prompt, str], Awaitable[ModelAnswer]]
SUMMARY = ".summary"  # what is asked beside the proposal itself


@dataclass(frozen=True)
class Made:
    """A candidate that a slot gave, with what is to be noted of it."""

    candidate: Candidate
    proposal: Proposal


@dataclass
class Proposer:
    """Fills slots from the state that their generation began with."""

    subject: PromptContext
    target: str  # the task as an evaluator opens it
    state: SearchState
    seed: int
    start: Candidate | None = None
    summaries: bool = True  # whether a model is asked to tell the last error of a translation in its words

    async def fill(self, slot: Slot, ask: Ask) -> Made | Proposal:
        """The slot's candidate, or the proposal that says why there is none."""
        if slot.operator == SEED:
            assert self.start is not None
            return Made(self.start, _done(slot, name=self.start.origin))
        if slot.operator == TUNE:
            return self._tuned(slot)
        return await self._asked(slot, ask)

    def _tuned(self, slot: Slot) -> Made | Proposal:
        parent = self._member(slot.parents[0])
        if parent is None:
            return Proposal(slot=slot, outcome=SlotOutcome.DUPLICATE, detail="its parent is no longer among the best")
        made = with_macros(parent, slot.macros).model_copy(update={"task": self.target})
        return self._new(Made(made, _done(slot, name=format_macros(slot.macros))))

    async def _asked(self, slot: Slot, ask: Ask) -> Made | Proposal:
        paid: list[ModelAnswer] = []
        try:
            prompt = await self._prompt(slot, ask, paid)
            paid.append(await ask(slot, prompt, ""))
        except ReplayMismatch:
            raise
        except BudgetSpent as error:
            return Proposal(slot=slot, outcome=SlotOutcome.OUT_OF_BUDGET, detail=str(error), usd=_usd(paid) + error.usd)
        except ModelError as error:
            return Proposal(slot=slot, outcome=SlotOutcome.MODEL_FAILED, detail=str(error), usd=_usd(paid) + error.usd)
        return self._read(slot, paid)

    def _read(self, slot: Slot, paid: Sequence[ModelAnswer]) -> Made | Proposal:
        """What the last answer to a slot holds: a new candidate, or why not."""
        answer, done = paid[-1], _done(slot, paid=paid)
        parent = self._member(slot.parents[0]) if slot.parents else None
        patch = slot.operator in OPERATORS and OPERATORS[slot.operator].patch
        draft = _drafted(self.subject.language, answer, parent.source if parent and patch else "")
        if isinstance(draft, UnusableProposal):
            bad = {"outcome": SlotOutcome.BAD_ANSWER, "detail": f"{draft.fault}: {draft.detail}"}
            return done.model_copy(update={**bad, "source": answer.text[:2000]})
        candidate = Candidate(
            task=self.target,
            direction=self.subject.direction,
            source=draft.code,
            language=language_of(draft.code),
            macros=read_space(draft.code).restrict_macros(parent.macros) if parent else {},
            parents=slot.parents,
            origin=slot.model,
        )
        return self._new(Made(candidate, done.model_copy(update={"name": draft.name, "thought": draft.thought})))

    def _new(self, made: Made) -> Made | Proposal:
        why = self.state.novelty.duplicate_reason(made.candidate.source, made.candidate.macros)
        if not why:
            return made
        return made.proposal.model_copy(update={"outcome": SlotOutcome.DUPLICATE, "detail": why})

    async def _prompt(self, slot: Slot, ask: Ask, paid: list[ModelAnswer]) -> Prompt:
        """The slot's prompt; before a next attempt the last error is told in a few words by the model itself."""
        last = self.state.chains.get(slot.place) if slot.operator == TRANSLATE else None
        if last is not None and last.source and self.summaries:
            told = await ask(slot, summary(last), SUMMARY)
            paid.append(told)
            last = Broken(last.source, f"{told.text.strip()}\n\n{last.evidence.splitlines()[0]}")
        return self.prompt(slot, last)

    def question(self, slot: Slot) -> Prompt:
        """The prompt of a slot for somebody who is asked once: the last error as the evaluator told it."""
        return self.prompt(slot, self.state.chains.get(slot.place) if slot.operator == TRANSLATE else None)

    def prompt(self, slot: Slot, last: Broken | None = None) -> Prompt:
        """The prompt of a slot as it is asked of a model."""
        lessons = notes(self.state.lessons, self.subject.task.name)
        if slot.operator == TRANSLATE:
            return translation(self.subject, lessons, last)
        draw = draw_for(self.seed, "context", slot.name)
        parents = [one for one in self.state.population.members if one.id in slot.parents]
        parents.sort(key=lambda one: slot.parents.index(one.id))
        material = Material(
            context=self.state.population.context(parents, draw),
            parents=parents,
            idea=_texts().get(slot.idea, ""),
            lessons=lessons,
            broken=self.state.broken.get(slot.broken),
        )
        return proposal(self.subject, slot.operator, material)

    def _member(self, id: str) -> Candidate | None:
        found = (one.record.candidate for one in self.state.population.members if one.id == id)
        return next(found, None)


def _drafted(language: str, answer: ModelAnswer, original: str) -> Draft | UnusableProposal:
    if answer.is_refused:
        return UnusableProposal(AnswerFault.REFUSAL, f"The model refused: {' '.join(answer.text.split())[:160]}")
    return read_answer(answer.text, original, language)


def _done(slot: Slot, name: str = "", paid: Sequence[ModelAnswer] = ()) -> Proposal:
    free = all(answer.usd == 0 for answer in paid)
    return Proposal(slot=slot, outcome=SlotOutcome.EVALUATED, name=name, usd=_usd(paid), free=free)


def _usd(paid: Sequence[ModelAnswer]) -> float:
    return sum(answer.usd or 0.0 for answer in paid)


def _texts() -> Mapping[str, str]:
    return {idea.id: idea.advice for idea in ideas()}
