"""One generation: every slot filled, verified, the best evaluated, each kept the moment it is finished."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from warpsmith.languages.cuda import format_macros, normal_key
from warpsmith.llm import Ensemble, LanguageModel, ModelAnswer, ModelError, Prompt
from warpsmith.records import Candidate, Record
from warpsmith.search.ledger import RunLedger
from warpsmith.search.proposals import Made, Opinion, Proposer, Screen
from warpsmith.search.slot import Proposal, Slot, SlotOutcome
from warpsmith.search.state import Result, verdict_word

Evaluate = Callable[[Candidate], Record]

Show = Callable[[str, int, str], None]  # the phase, the slots that are finished, what just happened


@dataclass(frozen=True)
class Crew:
    """Who works: the evaluator, the models, the verifiers, and the threads they may use."""

    evaluate: Evaluate
    pool: Executor
    models: Ensemble = field(default_factory=Ensemble)
    screen: Screen | None = None


@dataclass
class Generation:
    """The slots of one generation on their way."""

    slots: Sequence[Slot]
    ledger: RunLedger
    proposer: Proposer
    crew: Crew
    show: Show
    evaluate: int  # of the models' proposals, how many are evaluated
    left: int | None = None  # of all proposals, how many may be
    finished: dict[str, Result] = field(default_factory=dict)

    async def run(self) -> list[Result]:
        """All slots finished; what an earlier process finished is taken as it is."""
        chosen = await self.prepare()
        self.show("evaluating", len(self.finished), "")
        await asyncio.gather(*(self._judged(one) for one in chosen))
        return list(self.finished.values())

    async def prepare(self) -> list[Made]:
        """The candidates that are worth an evaluation; every other slot is finished."""
        self.finished = {one.slot.name: one for one in self.ledger.finished(self.slots[0].generation)}
        self.show("proposing", len(self.finished), "")
        made = self._sifted(await self._filled())
        return self._chosen(await self._screened(self._distinct(made)))

    async def _filled(self) -> list[Made | Proposal]:
        """What each open slot proposes, all models asked at once; what they said before a kill is not asked again."""
        left = [slot for slot in self.slots if slot.name not in self.finished]
        known = self.ledger.answers(self.slots[0].generation)
        ask = partial(self._ask, known)
        return list(await asyncio.gather(*(self.proposer.fill(slot, ask) for slot in left)))

    async def _ask(self, known: Mapping[str, ModelAnswer], slot: Slot, prompt: Prompt, part: str) -> ModelAnswer:
        if (before := known.get(slot.name + part)) is not None:
            return before
        try:
            answer = await self._model(slot.model).ask(prompt)
        except ModelError as error:
            self.ledger.lose(slot, error.usd)
            raise
        self.ledger.answer(slot, answer, part)
        return answer

    def _model(self, name: str) -> LanguageModel:
        """The model of a plan; where a resumed run has others, the first of them."""
        if not self.crew.models:
            raise ModelError(f"{name} is not here to be asked")
        return self.crew.models[name] if name in self.crew.models.names else next(iter(self.crew.models))

    def _sifted(self, filled: Sequence[Made | Proposal]) -> list[Made]:
        """Those that gave a candidate; the others are finished."""
        for one in filled:
            if isinstance(one, Proposal):
                self._close(Result(one))
        return [one for one in filled if isinstance(one, Made)]

    def _distinct(self, made: Sequence[Made]) -> list[Made]:
        """The first of equal kernels; the others are finished."""
        records = [one.record for one in self.finished.values() if one.record is not None]
        seen = {normal_key(record.candidate) for record in records}
        kept: list[Made] = []
        for one in sorted(made, key=_place):
            if normal_key(one.candidate) in seen:
                self._refuse(one, SlotOutcome.DUPLICATE, "the same kernel is proposed twice in this generation")
            else:
                seen.add(normal_key(one.candidate))
                kept.append(one)
        return kept

    async def _screened(self, made: Sequence[Made]) -> list[tuple[Made, Opinion]]:
        """The models' proposals as the verifiers see them; those they stop are finished."""
        if self.crew.screen is None:
            return [(one, Opinion()) for one in made]
        self.show("verifying", len(self.finished), "")
        look = partial(self._look, self.crew.screen, self.ledger.reviews(self.slots[0].generation))
        loop = asyncio.get_running_loop()
        said = await asyncio.gather(*(loop.run_in_executor(self.crew.pool, look, one) for one in made))
        rated = [_rated(one, opinion) for one, opinion in zip(made, said, strict=True)]
        for one, opinion in rated:
            if not opinion.go:
                self._refuse(one, SlotOutcome.STOPPED, opinion.why)
        return [(one, opinion) for one, opinion in rated if opinion.go]

    def _look(self, screen: Screen, known: Mapping[str, Opinion], made: Made) -> Opinion:
        """What the verifiers say; what was paid for is kept at once, and not asked again after a kill."""
        slot = made.proposal.slot
        if not slot.model:
            return Opinion()
        if slot.name in known:
            return known[slot.name]
        opinion = screen(made.candidate)
        if opinion.answers:
            self.ledger.review(slot, opinion)
        return opinion

    def _chosen(self, rated: Sequence[tuple[Made, Opinion]]) -> list[Made]:
        """All that cost no model, and of the others those that look best; the rest is passed over."""
        asked = [pair for pair in rated if pair[0].proposal.slot.model]
        asked.sort(key=lambda pair: (-pair[1].confidence, _place(pair[0])))
        taken = [one.slot for one in self.finished.values() if one.record is not None]
        room = max(0, self.evaluate - sum(1 for slot in taken if slot.model))
        for one, _ in asked[room:]:
            self._refuse(one, SlotOutcome.PASSED_OVER, f"{self.evaluate} others of its generation are evaluated")
        best = [one for one, _ in rated if not one.proposal.slot.model] + [one for one, _ in asked[:room]]
        most = len(best) if self.left is None else max(0, self.left - len(taken))
        for one in best[most:]:
            self._refuse(one, SlotOutcome.PASSED_OVER, f"only {self.left} evaluations were left for its generation")
        return best[:most]

    async def _judged(self, made: Made) -> None:
        """Evaluate and keep, in one go on a thread, so that an interrupt in between loses nothing."""
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self.crew.pool, self._judge, made)
        self.finished[result.slot.name] = result
        self.show("evaluating", len(self.finished), words(result))

    def _judge(self, made: Made) -> Result:
        record = self.crew.evaluate(made.candidate)
        result = Result(made.proposal.model_copy(update={"candidate": record.candidate.id}), record)
        self.ledger.finish(result)
        return result

    def _refuse(self, made: Made, outcome: SlotOutcome, why: str) -> None:
        update = {"outcome": outcome, "detail": why, "source": made.candidate.source}
        self._close(Result(made.proposal.model_copy(update=update)))

    def _close(self, result: Result) -> None:
        self.ledger.finish(result)
        self.finished[result.slot.name] = result
        self.show("proposing", len(self.finished), words(result))


def words(result: Result) -> str:
    """A finished slot in a line."""
    slot, record = result.slot, result.record
    who = f"{slot.operator} by {slot.model}" if slot.model else slot.operator
    point = f" {format_macros(slot.macros)}" if slot.operator == "tune" else ""
    called = f" '{result.proposal.name}'" if slot.model and result.proposal.name else ""
    detail = f": {result.proposal.detail}" if record is None and result.proposal.detail else ""
    return f"{slot.name} {who}{point}{called}: {verdict_word(result)}{detail}"


def _rated(made: Made, opinion: Opinion) -> tuple[Made, Opinion]:
    """A candidate with its opinion; what the reviewers cost is part of its price."""
    paid = made.proposal.model_copy(update={"usd": made.proposal.usd + opinion.usd})
    return Made(made.candidate, paid), opinion


def _place(made: Made) -> int:
    return made.proposal.slot.place
