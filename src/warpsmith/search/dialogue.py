"""Ask and tell: prompts of a generation go out, answers and records come in as files or values.

The slots are the same as in a run that asks models itself.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from warpsmith.base import UsageError
from warpsmith.languages.cuda import normal_key
from warpsmith.llm import (
    Ensemble,
    Exchange,
    ModelAnswer,
    ModelError,
    Prompt,
    RecordedFailure,
    Transcript,
    TranscriptFile,
)
from warpsmith.records import Candidate, Record
from warpsmith.search.generation import Evaluate, GenerationTools, describe_result
from warpsmith.search.ledger import PendingCandidate
from warpsmith.search.loop import Search
from warpsmith.search.proposals import ProposedCandidate
from warpsmith.search.selection import gain_over
from warpsmith.search.selection.population import find_fitness
from warpsmith.search.slots import Proposal, Screen, Slot, SlotOutcome
from warpsmith.search.state import Result, outcome_word

UNANSWERED = "no answer was given"


class ExternalModel:
    """A model that answers through files."""

    def __init__(self, name: str = "somebody") -> None:
        self.name = name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Raise ModelError: answers come by `tell`."""
        raise ModelError(UNANSWERED)


@dataclass(frozen=True)
class Question:
    """A slot with its prompt."""

    slot: Slot
    prompt: Prompt


@dataclass(frozen=True)
class TellResult:
    """The result of `tell`: lines, and slots that wait."""

    lines: tuple[str, ...]
    closed: bool
    waiting: tuple[PendingCandidate, ...] = ()
    unanswered: tuple[str, ...] = ()


class Dialogue:
    """A search whose slots are filled from outside."""

    def __init__(
        self, search: Search, screen: Screen | None = None, jobs: int = 2, tape: TranscriptFile | None = None
    ) -> None:
        self._search = search
        self._screen = screen
        self._jobs = jobs
        self._tape = tape

    def open_questions(self) -> list[Question]:
        """Return the unanswered questions of the open generation."""
        slots = self._search.next_slots()
        done = self._finished_names(slots)
        proposer = self._search.proposer()
        known = self._search.ledger.load_answers(slots[0].generation) if slots else {}
        left = [slot for slot in slots if slot.model and slot.name not in done and slot.name not in known]
        return [Question(slot, proposer.question(slot)) for slot in left]

    def answer(self, texts: Mapping[str, str]) -> int:
        """Save answers by the names of their slots, and return how many are new.

        # Answers to finished generations come from repeated `tell` calls, and are no error.
        Answers to finished generations are ignored. Raise UsageError for a name that is no question.
        """
        slots = {slot.name: slot for slot in self._search.next_slots()}
        old = {slot.name for slot in self._finished_slots()}
        # All names are checked before the first answer is saved: a wrong file must not be taken in part.
        for name in texts:
            if name not in old and (name not in slots or not slots[name].model):
                open_ones = ", ".join(slots) or "none"
                raise UsageError(
                    f"Answer {name} belongs to no question of this generation; the open questions are {open_ones}."
                )
        done = self._finished_names(tuple(slots.values()))
        known = self._search.ledger.load_answers(next(iter(slots.values())).generation) if slots else {}
        new = {name: text for name, text in texts.items() if name not in (old | done) and name not in known}
        for name, text in new.items():
            answer = ModelAnswer(text=text, model=slots[name].model, usd=0.0)
            self._search.ledger.save_answer(slots[name], answer)
            self._write_transcript(slots[name], answer)
        return len(new)

    def late_answers(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        """Return a line for each late answer."""
        found, ledger = [], self._search.ledger
        for name, text in texts.items():
            number = int(name.partition(".")[0])
            before = ledger.load_answers(number).get(name)
            if before is None:
                ends = [outcome_word(one) for one in ledger.load_results(number) if one.slot.name == name]
                found += [f"{name}: not taken, its question is closed: {end}" for end in ends]
            elif before.text != text:
                found.append(f"{name}: not taken, the slot already has another answer")
        return tuple(found)

    def recorded_answers(self, recording: Transcript) -> dict[str, str]:
        """Return the recorded answers to the open questions; a question given up then has none."""
        # A resumed replay has used these exchanges already, so they are taken out in the same order.
        for old in recording.exchanges[: self._count_asked()]:
            recording.take(old.prompt, old.model)
        found = {one.slot.name: recording.take(one.prompt, one.slot.model).answer for one in self.open_questions()}
        return {name: answer.text for name, answer in found.items() if answer is not None}

    @property
    def ready(self) -> int:
        """The number of slots that can be evaluated: answered, or without a question."""
        return len(self._open_and_ready()[1])

    def evaluate(self, evaluate: Evaluate) -> TellResult:
        """Evaluate the answered slots on this machine."""
        slots, ready = self._open_and_ready()
        if ready:
            asyncio.run(self._run_slots(ready, evaluate))
        return self._result(slots, ready)

    def requests(self) -> TellResult:
        """Verify the answered slots; save candidates for evaluation."""
        slots, ready = self._open_and_ready()
        made = asyncio.run(self._run_slots(ready, None)) if ready else []
        for one in made:
            # Saved before any candidate leaves this machine: its record may come in another process, days later.
            self._search.ledger.save_waiting(one.proposal, one.candidate)
        return self._result(slots, ready)

    def results(self, records: Iterable[Record]) -> TellResult:
        """Save the records of waiting candidates; report the other records."""
        # Compared by tokens: an evaluator elsewhere may have normalized white space.
        waiting = {normal_key(one.candidate): one for one in self._search.ledger.load_waiting()}
        lines = []
        for record in records:
            one = waiting.pop(normal_key(record.candidate), None)
            if one is None:
                lines.append(
                    f"a record of candidate {record.candidate.id[:12]} matches no waiting candidate and is ignored"
                )
                continue
            lines.append(self._save_record(one, record))
        told = self._result(self._search.next_slots(), ())
        return TellResult((*lines, *told.lines), told.closed, told.waiting, told.unanswered)

    def drop(self) -> int:
        """Close the questions without an answer."""
        left = self.open_questions()
        for one in left:
            self._search.ledger.save_result(
                Result(Proposal(slot=one.slot, outcome=SlotOutcome.MODEL_FAILED, detail=UNANSWERED))
            )
            self._write_transcript(one.slot, None)
        return len(left)

    def _write_transcript(self, slot: Slot, answer: ModelAnswer | None) -> None:
        """Append a question and its answer to the transcript."""
        if self._tape is not None:
            failure = None if answer else RecordedFailure.of(ModelError(UNANSWERED))
            prompt = self._search.proposer().question(slot)
            self._tape.add(Exchange(model=slot.model, prompt=prompt, answer=answer, failure=failure))

    def _count_asked(self) -> int:
        """Return the number of closed questions."""
        slots = [*self._finished_slots(), *self._search.next_slots()]
        return sum(bool(slot.model) for slot in slots) - len(self.open_questions())

    def _finished_slots(self) -> list[Slot]:
        """Return the slots of the finished generations."""
        ledger = self._search.ledger
        return [slot for number in range(self._search.state.generation) for slot in ledger.load_plan(number)]

    def _save_record(self, one: PendingCandidate, record: Record) -> str:
        """Save the record of a waiting candidate."""
        ours = one.candidate.model_copy(
            update={"task": self._search.task}
        )  # keeps its parents, which the JSON lines of a batch may omit
        named = record.model_copy(update={"candidate": ours})
        update = {"outcome": SlotOutcome.EVALUATED, "candidate": named.candidate.id}
        result = Result(one.proposal.model_copy(update=update), named)
        self._search.ledger.save_result(result)
        return self._describe(result)

    def _open_and_ready(self) -> tuple[tuple[Slot, ...], list[Slot]]:
        """Return the open generation's slots, and the ready ones."""
        slots = self._search.next_slots()
        if not slots:
            return (), []
        known = self._search.ledger.load_answers(slots[0].generation)
        done = self._finished_names(slots)
        return slots, [slot for slot in slots if slot.name not in done and (not slot.model or slot.name in known)]

    async def _run_slots(self, slots: Sequence[Slot], evaluate: Evaluate | None) -> list[ProposedCandidate]:
        """Evaluate slots; without an evaluator, only verify them."""
        with ThreadPoolExecutor(self._jobs) as pool:
            crew = GenerationTools(evaluate or _raise_not_here, pool, Ensemble([ExternalModel()]), self._screen)
            generation = self._search.generation(slots, crew)
            # Other machines have room for all candidates, so none is passed over here.
            generation.evaluate = len(self._search.next_slots())
            if evaluate is None:
                return await generation.prepare()
            await generation.run()
            return []

    def _result(self, slots: Sequence[Slot], ready: Sequence[Slot]) -> TellResult:
        """Return the generation's state."""
        left = tuple(one.slot.name for one in self.open_questions()) if slots else ()
        finished = self._search.ledger.load_results(slots[0].generation) if slots else []
        names = {slot.name for slot in ready}
        lines = tuple(self._describe(one) for one in finished if one.slot.name in names)
        # Only slots of this call are described, since earlier calls described theirs.
        closed = bool(slots) and self._search.close(slots)
        return TellResult(lines, closed, tuple(self._search.ledger.load_waiting()), left)

    def _describe(self, one: Result) -> str:
        """Return one line about a slot and its gain."""
        found = find_fitness(one.record) if one.record is not None else None
        if found is None:
            return describe_result(one)
        base = self._search.state.population.base
        over = gain_over(found, base) if base else None
        more = f", {over:.2f}× the first kernel" if over else ""
        return f"{describe_result(one)}: {found.score.words}{more}"

    def _finished_names(self, slots: Sequence[Slot]) -> set[str]:
        """Return the names of finished slots."""
        return {one.slot.name for one in self._search.ledger.load_results(slots[0].generation)} if slots else set()


def open_slots(search: Search) -> tuple[str, ...]:
    """Return the names of planned, unfinished slots."""
    number = search.state.generation
    done = {one.slot.name for one in search.ledger.load_results(number)}
    return tuple(slot.name for slot in search.ledger.load_plan(number) if slot.name not in done)


def _raise_not_here(candidate: Candidate) -> Record:
    raise UsageError("This run is evaluated on another machine.")
