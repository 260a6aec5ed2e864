"""From a slot to a candidate: by a model, the tuner or the first kernel."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.languages import language_of
from warpsmith.languages.cuda import format_macros, read_space, with_macros
from warpsmith.llm import BudgetSpent, ModelAnswer, ModelError, Prompt, ReplayMismatch
from warpsmith.records import Candidate
from warpsmith.search.planner import draw_for
from warpsmith.search.proposals.answer import AnswerFault, Draft, UnusableProposal, read_answer
from warpsmith.search.proposals.evidence import lesson_lines
from warpsmith.search.proposals.operators import OPERATORS, SEED, TRANSLATE, TUNE, load_ideas
from warpsmith.search.proposals.prompts import (
    BrokenKernel,
    PromptContext,
    PromptMaterial,
    proposal_prompt,
    summary_prompt,
    translation_prompt,
)
from warpsmith.search.slots import Proposal, Slot, SlotOutcome
from warpsmith.search.state import SearchState

Ask = Callable[[Slot, Prompt, str], Awaitable[ModelAnswer]]
SUMMARY = ".summary"  # suffix of a slot's name, for the request that summarizes a failure


@dataclass(frozen=True)
class ProposedCandidate:
    """A candidate of a slot, with its proposal."""

    candidate: Candidate
    proposal: Proposal


@dataclass
class Proposer:
    """The filler of a generation's slots."""

    subject: PromptContext
    target: str  # the task as an evaluator opens it
    state: SearchState
    seed: int
    start: Candidate | None = None
    summaries: bool = True  # whether a model summarizes the last error of a translation

    async def fill(self, slot: Slot, ask: Ask) -> ProposedCandidate | Proposal:
        """Return the slot's candidate, or its failed proposal."""
        if slot.operator == SEED:
            assert self.start is not None
            return ProposedCandidate(self.start, _finished(slot, name=self.start.origin))
        if slot.operator == TUNE:
            return self._tune(slot)
        return await self._ask_model(slot, ask)

    def _tune(self, slot: Slot) -> ProposedCandidate | Proposal:
        """Return the parent with the macros of the slot."""
        parent = self._find_parent(slot.parents[0])
        # Another record may have pushed the parent out of the population after the plan was made.
        if parent is None:
            return Proposal(slot=slot, outcome=SlotOutcome.DUPLICATE, detail="its parent is no longer among the best")
        made = with_macros(parent, slot.macros).model_copy(update={"task": self.target})
        return self._check_novelty(ProposedCandidate(made, _finished(slot, name=format_macros(slot.macros))))

    async def _ask_model(self, slot: Slot, ask: Ask) -> ProposedCandidate | Proposal:
        """Ask the slot's model, and read its answer."""
        paid: list[ModelAnswer] = []
        try:
            prompt = await self._prompt(slot, ask, paid)
            paid.append(await ask(slot, prompt, ""))
        # A transcript that lacks the prompt is an error of the replay, not of a model: it must end the run.
        except ReplayMismatch:
            raise
        except BudgetSpent as error:
            return Proposal(
                slot=slot, outcome=SlotOutcome.OUT_OF_BUDGET, detail=str(error), usd=_sum_usd(paid) + error.usd
            )
        except ModelError as error:
            return Proposal(
                slot=slot, outcome=SlotOutcome.MODEL_FAILED, detail=str(error), usd=_sum_usd(paid) + error.usd
            )
        return self._read_answer(slot, paid)

    def _read_answer(self, slot: Slot, paid: Sequence[ModelAnswer]) -> ProposedCandidate | Proposal:
        """Return the candidate of the last answer, or the proposal that says why there is none."""
        answer, done = paid[-1], _finished(slot, paid=paid)
        parent = self._find_parent(slot.parents[0]) if slot.parents else None
        patch = slot.operator in OPERATORS and OPERATORS[slot.operator].patch
        draft = _read_draft(self.subject.language, answer, parent.source if parent and patch else "")
        if isinstance(draft, UnusableProposal):
            bad = {"outcome": SlotOutcome.BAD_ANSWER, "detail": f"{draft.fault}: {draft.detail}"}
            return done.model_copy(update={**bad, "source": answer.text[:2000]})
        candidate = Candidate(
            task=self.target,
            direction=self.subject.direction,
            source=draft.code,
            language=language_of(draft.code),
            # Values tuned for the parent start the child, where the child has the same choices.
            macros=read_space(draft.code).restrict_macros(parent.macros) if parent else {},
            parents=slot.parents,
            origin=slot.model,
        )
        return self._check_novelty(
            ProposedCandidate(candidate, done.model_copy(update={"name": draft.name, "thought": draft.thought}))
        )

    def _check_novelty(self, made: ProposedCandidate) -> ProposedCandidate | Proposal:
        """Return the candidate, or a proposal with outcome DUPLICATE if it was tried."""
        why = self.state.novelty.duplicate_reason(made.candidate.source, made.candidate.macros)
        if not why:
            return made
        return made.proposal.model_copy(update={"outcome": SlotOutcome.DUPLICATE, "detail": why})

    async def _prompt(self, slot: Slot, ask: Ask, paid: list[ModelAnswer]) -> Prompt:
        """Return the slot's prompt. Before the next attempt of a translation, the model summarizes the last error."""
        last = self.state.chains.get(slot.place) if slot.operator == TRANSLATE else None
        if last is not None and last.source and self.summaries:
            told = await ask(slot, summary_prompt(last), SUMMARY)
            paid.append(told)
            last = BrokenKernel(last.source, f"{told.text.strip()}\n\n{last.evidence.splitlines()[0]}")
        return self.prompt(slot, last)

    def question(self, slot: Slot) -> Prompt:
        """Return a slot's single prompt."""
        return self.prompt(slot, self.state.chains.get(slot.place) if slot.operator == TRANSLATE else None)

    def prompt(self, slot: Slot, last: BrokenKernel | None = None) -> Prompt:
        """Return the prompt of a slot."""
        lessons = lesson_lines(self.state.lessons, self.subject.task.name)
        if slot.operator == TRANSLATE:
            return translation_prompt(self.subject, lessons, last)
        # By the slot's name: a resumed run shows the same kernels and so asks the same question.
        draw = draw_for(self.seed, "context", slot.name)
        parents = [one for one in self.state.population.members if one.id in slot.parents]
        # Prompts name the first parent as the kernel to change, so the planned order is kept.
        parents.sort(key=lambda one: slot.parents.index(one.id))
        material = PromptMaterial(
            context=self.state.population.draw_context(parents, draw),
            parents=parents,
            idea=_advice().get(slot.idea, ""),
            lessons=lessons,
            broken=self.state.broken.get(slot.broken),
        )
        return proposal_prompt(self.subject, slot.operator, material)

    def _find_parent(self, id: str) -> Candidate | None:
        """Return the candidate of a member, or None if it is no longer one."""
        found = (one.record.candidate for one in self.state.population.members if one.id == id)
        return next(found, None)


def _read_draft(language: str, answer: ModelAnswer, original: str) -> Draft | UnusableProposal:
    """Return an answer's draft, or a refusal."""
    if answer.is_refused:
        return UnusableProposal(AnswerFault.REFUSAL, f"The model refused: {' '.join(answer.text.split())[:160]}")
    return read_answer(answer.text, original, language)


def _finished(slot: Slot, name: str = "", paid: Sequence[ModelAnswer] = ()) -> Proposal:
    """Return the proposal of a filled slot."""
    # Without requests `all` is True: the tuner is free.
    free = all(answer.usd == 0 for answer in paid)
    return Proposal(slot=slot, outcome=SlotOutcome.EVALUATED, name=name, usd=_sum_usd(paid), free=free)


def _sum_usd(paid: Sequence[ModelAnswer]) -> float:
    return sum(answer.usd or 0.0 for answer in paid)


def _advice() -> Mapping[str, str]:
    """Return the advice of each idea."""
    return {idea.id: idea.advice for idea in load_ideas()}
