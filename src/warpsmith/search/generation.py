"""One generation: fill slots, verify candidates, evaluate the best."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from warpsmith.languages.cuda import format_macros, normal_key
from warpsmith.llm import Ensemble, LanguageModel, ModelAnswer, ModelError, Prompt
from warpsmith.records import Candidate, Record
from warpsmith.search.ledger import RunLedger
from warpsmith.search.proposals import ProposedCandidate, Proposer
from warpsmith.search.slots import Opinion, Proposal, Screen, Slot, SlotOutcome
from warpsmith.search.state import Result, outcome_word

Evaluate = Callable[[Candidate], Record]

Show = Callable[[str, int, str], None]  # phase, number of finished slots, text of the latest event


@dataclass(frozen=True)
class GenerationTools:
    """The evaluator, the models, the verifiers, and the threads for them."""

    evaluate: Evaluate
    pool: Executor
    models: Ensemble = field(default_factory=Ensemble)
    screen: Screen | None = None


@dataclass
class Generation:
    """The slots of one generation while they are worked on."""

    slots: Sequence[Slot]
    ledger: RunLedger
    proposer: Proposer
    crew: GenerationTools
    show: Show
    evaluate: int  # at most so many proposals of models are evaluated
    left: int | None = None  # evaluations that the budget leaves; None: no bound
    finished: dict[str, Result] = field(default_factory=dict)

    async def run(self) -> list[Result]:
        """Finish every slot, reusing saved results."""
        chosen = await self.prepare()
        self.show("evaluating", len(self.finished), "")
        await asyncio.gather(*(self._evaluate(one) for one in chosen))
        return list(self.finished.values())

    async def prepare(self) -> list[ProposedCandidate]:
        """Return the candidates to evaluate; every other slot is finished."""
        # A killed process may have finished some slots; their results stand in the archive.
        self.finished = {one.slot.name: one for one in self.ledger.load_results(self.slots[0].generation)}
        self.show("proposing", len(self.finished), "")
        made = self._split(await self._fill_slots())
        return self._choose(await self._screen(self._drop_duplicates(made)))

    async def _fill_slots(self) -> list[ProposedCandidate | Proposal]:
        """Return the open slots' candidates, reusing saved answers."""
        left = [slot for slot in self.slots if slot.name not in self.finished]
        known = self.ledger.load_answers(self.slots[0].generation)
        ask = partial(self._ask, known)
        # All questions go out together; the limits of providers stand in their gates.
        return list(await asyncio.gather(*(self.proposer.fill(slot, ask) for slot in left)))

    async def _ask(self, known: Mapping[str, ModelAnswer], slot: Slot, prompt: Prompt, part: str) -> ModelAnswer:
        """Return a saved answer, or ask and save."""
        if (before := known.get(slot.name + part)) is not None:
            return before
        try:
            answer = await self._model(slot.model).ask(prompt)
        except ModelError as error:
            # A failed request may cost money, and the budget of a resumed run must know.
            self.ledger.save_lost_cost(slot, error.usd)
            raise
        self.ledger.save_answer(slot, answer, part)
        return answer

    def _model(self, name: str) -> LanguageModel:
        """Return the planned model, or the first one if a resumed run has other models."""
        if not self.crew.models:
            raise ModelError(f"model {name} is not available")
        return self.crew.models[name] if name in self.crew.models.names else next(iter(self.crew.models))

    def _split(self, filled: Sequence[ProposedCandidate | Proposal]) -> list[ProposedCandidate]:
        """Return the candidates; close the slots without one."""
        for one in filled:
            if isinstance(one, Proposal):
                self._close(Result(one))
        return [one for one in filled if isinstance(one, ProposedCandidate)]

    def _drop_duplicates(self, made: Sequence[ProposedCandidate]) -> list[ProposedCandidate]:
        """Return the first of equal kernels; close the other slots."""
        records = [one.record for one in self.finished.values() if one.record is not None]
        # Compared with finished slots too: a resumed generation must not evaluate a kernel twice.
        seen = {normal_key(record.candidate) for record in records}
        kept: list[ProposedCandidate] = []
        # By place, not by the order of answers, so that the same slot wins whoever answers first.
        for one in sorted(made, key=_place):
            if normal_key(one.candidate) in seen:
                self._close_unevaluated(
                    one, SlotOutcome.DUPLICATE, "another slot of this generation proposes the same kernel"
                )
            else:
                seen.add(normal_key(one.candidate))
                kept.append(one)
        return kept

    async def _screen(self, made: Sequence[ProposedCandidate]) -> list[tuple[ProposedCandidate, Opinion]]:
        """Return the candidates that the verifiers let through, with their opinions."""
        if self.crew.screen is None:
            return [(one, Opinion()) for one in made]
        self.show("verifying", len(self.finished), "")
        look = partial(self._screen_one, self.crew.screen, self.ledger.load_reviews(self.slots[0].generation))
        loop = asyncio.get_running_loop()
        said = await asyncio.gather(*(loop.run_in_executor(self.crew.pool, look, one) for one in made))
        rated = [_with_cost(one, opinion) for one, opinion in zip(made, said, strict=True)]
        for one, opinion in rated:
            if not opinion.go:
                self._close_unevaluated(one, SlotOutcome.STOPPED, opinion.why)
        return [(one, opinion) for one, opinion in rated if opinion.go]

    def _screen_one(self, screen: Screen, known: Mapping[str, Opinion], made: ProposedCandidate) -> Opinion:
        """Return the opinion on one candidate. A paid review is saved at once, so a killed run pays once."""
        slot = made.proposal.slot
        # Points of the tuner are variants of a kernel that passed, so reviewers are not paid for them.
        if not slot.model:
            return Opinion()
        if slot.name in known:
            return known[slot.name]
        opinion = screen(made.candidate)
        if opinion.answers:
            self.ledger.save_review(slot, opinion)
        return opinion

    def _choose(self, rated: Sequence[tuple[ProposedCandidate, Opinion]]) -> list[ProposedCandidate]:
        """Return the candidates to evaluate: all of the tuner, then the most promising ones of models."""
        asked = [pair for pair in rated if pair[0].proposal.slot.model]
        # The most confident first; equal ones by place, so that the choice depends on the plan alone.
        asked.sort(key=lambda pair: (-pair[1].confidence, _place(pair[0])))
        taken = [one.slot for one in self.finished.values() if one.record is not None]
        # Evaluations before a kill count against the same number.
        room = max(0, self.evaluate - sum(1 for slot in taken if slot.model))
        for one, _ in asked[room:]:
            self._close_unevaluated(
                one, SlotOutcome.PASSED_OVER, f"{self.evaluate} other proposals of the generation are evaluated"
            )
        best = [one for one, _ in rated if not one.proposal.slot.model] + [one for one, _ in asked[:room]]
        # The evaluation budget of the run, from which evaluations of this generation are taken.
        most = len(best) if self.left is None else max(0, self.left - len(taken))
        for one in best[most:]:
            self._close_unevaluated(
                one, SlotOutcome.PASSED_OVER, f"the budget left {self.left} evaluations for the generation"
            )
        return best[:most]

    async def _evaluate(self, made: ProposedCandidate) -> None:
        """Evaluate one candidate on a thread."""
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self.crew.pool, self._evaluate_one, made)
        self.finished[result.slot.name] = result
        self.show("evaluating", len(self.finished), describe_result(result))

    def _evaluate_one(self, made: ProposedCandidate) -> Result:
        """Evaluate and save in one step, so that an interrupt between the two loses nothing."""
        record = self.crew.evaluate(made.candidate)
        result = Result(made.proposal.model_copy(update={"candidate": record.candidate.id}), record)
        self.ledger.save_result(result)
        return result

    def _close_unevaluated(self, made: ProposedCandidate, outcome: SlotOutcome, why: str) -> None:
        """Finish the slot of a candidate that is not evaluated."""
        update = {"outcome": outcome, "detail": why, "source": made.candidate.source}
        self._close(Result(made.proposal.model_copy(update=update)))

    def _close(self, result: Result) -> None:
        """Save a result and show it."""
        self.ledger.save_result(result)
        self.finished[result.slot.name] = result
        self.show("proposing", len(self.finished), describe_result(result))


def describe_result(result: Result) -> str:
    """Return one line about a finished slot."""
    slot, record = result.slot, result.record
    who = f"{slot.operator} by {slot.model}" if slot.model else slot.operator
    point = f" {format_macros(slot.macros)}" if slot.operator == "tune" else ""
    called = f" '{result.proposal.name}'" if slot.model and result.proposal.name else ""
    detail = f": {result.proposal.detail}" if record is None and result.proposal.detail else ""
    return f"{slot.name} {who}{point}{called}: {outcome_word(result)}{detail}"


def _with_cost(made: ProposedCandidate, opinion: Opinion) -> tuple[ProposedCandidate, Opinion]:
    """Add the cost of the reviewers to the proposal."""
    paid = made.proposal.model_copy(update={"usd": made.proposal.usd + opinion.usd})
    return ProposedCandidate(made.candidate, paid), opinion


def _place(made: ProposedCandidate) -> int:
    """Return the place of a candidate's slot."""
    return made.proposal.slot.place
