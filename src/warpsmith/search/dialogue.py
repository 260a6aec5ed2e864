"""Ask and tell: the slots of a generation as questions, answers and records taken as they come. Reads no file.

Whoever answers, and wherever a kernel is evaluated, the run goes through the same slots as with a model of its own.
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
from warpsmith.search.generation import Crew, Evaluate, words
from warpsmith.search.ledger import PendingCandidate
from warpsmith.search.loop import Search
from warpsmith.search.proposals import Made, Screen
from warpsmith.search.selection import gain
from warpsmith.search.selection.fitness import fitness
from warpsmith.search.slot import Proposal, Slot, SlotOutcome
from warpsmith.search.state import Result, verdict_word

UNANSWERED = "nobody answered"


class Somebody:
    """Whoever answers through files, as a model that cannot be asked directly."""

    def __init__(self, name: str = "somebody") -> None:
        self.name = name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Answers come by `tell`."""
        raise ModelError(UNANSWERED)


@dataclass(frozen=True)
class Question:
    """A slot and what is asked for it."""

    slot: Slot
    prompt: Prompt


@dataclass(frozen=True)
class Told:
    """What telling came to: lines for a person, whether the generation is complete, what waits elsewhere."""

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

    def questions(self) -> list[Question]:
        """The questions of the generation that is open; slots that need no answer are not among them."""
        slots = self._search.next_slots()
        done = self._done(slots)
        proposer = self._search.proposer()
        known = self._search.ledger.answers(slots[0].generation) if slots else {}
        left = [slot for slot in slots if slot.model and slot.name not in done and slot.name not in known]
        return [Question(slot, proposer.question(slot)) for slot in left]

    def answer(self, texts: Mapping[str, str]) -> int:
        """Keep answers by the names of their slots; those of finished generations stay as they are taken.

        A name that was not asked is refused.
        """
        slots = {slot.name: slot for slot in self._search.next_slots()}
        old = {slot.name for slot in self._before()}
        for name in texts:
            if name not in old and (name not in slots or not slots[name].model):
                open_ones = ", ".join(slots) or "none"
                raise UsageError(f"Answer {name} is to no question of this generation; open are {open_ones}.")
        done = self._done(tuple(slots.values()))
        known = self._search.ledger.answers(next(iter(slots.values())).generation) if slots else {}
        new = {name: text for name, text in texts.items() if name not in (old | done) and name not in known}
        for name, text in new.items():
            answer = ModelAnswer(text=text, model=slots[name].model, usd=0.0)
            self._search.ledger.answer(slots[name], answer)
            self._record(slots[name], answer)
        return len(new)

    def untaken(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        """A line for each answer that `answer` did not take: it came too late, or after another one."""
        found, ledger = [], self._search.ledger
        for name, text in texts.items():
            number = int(name.partition(".")[0])
            before = ledger.answers(number).get(name)
            if before is None:
                ends = [verdict_word(one) for one in ledger.finished(number) if one.slot.name == name]
                found += [f"{name}: not taken, its question is closed: {end}" for end in ends]
            elif before.text != text:
                found.append(f"{name}: not taken, another answer was told before")
        return tuple(found)

    def replayed(self, recording: Transcript) -> dict[str, str]:
        """What was answered to the open questions when they were recorded; one given up then has no answer."""
        for old in recording.exchanges[: self._asked()]:
            recording.take(old.prompt, old.model)
        found = {one.slot.name: recording.take(one.prompt, one.slot.model).answer for one in self.questions()}
        return {name: answer.text for name, answer in found.items() if answer is not None}

    @property
    def ready(self) -> int:
        """How many slots of the open generation can go on: answered, or without a question."""
        return len(self._ready()[1])

    def evaluate(self, evaluate: Evaluate) -> Told:
        """Evaluate what is answered, here."""
        slots, ready = self._ready()
        if ready:
            asyncio.run(self._run(ready, evaluate))
        return self._told(slots, ready)

    def requests(self) -> Told:
        """Verify what is answered, here; what is worth an evaluation waits for it."""
        slots, ready = self._ready()
        made = asyncio.run(self._run(ready, None)) if ready else []
        for one in made:
            self._search.ledger.wait(one.proposal, one.candidate)
        return self._told(slots, ready)

    def results(self, records: Iterable[Record]) -> Told:
        """Take records of candidates that wait; one that is not waited for is said."""
        waiting = {normal_key(one.candidate): one for one in self._search.ledger.waiting()}
        lines = []
        for record in records:
            one = waiting.pop(normal_key(record.candidate), None)
            if one is None:
                lines.append(f"a record of candidate {record.candidate.id[:12]} that nobody waits for is left out")
                continue
            lines.append(self._take(one, record))
        told = self._told(self._search.next_slots(), ())
        return Told((*lines, *told.lines), told.closed, told.waiting, told.unanswered)

    def drop(self) -> int:
        """Give up the questions that nobody answered, so that the generation can be completed."""
        left = self.questions()
        for one in left:
            self._search.ledger.finish(
                Result(Proposal(slot=one.slot, outcome=SlotOutcome.MODEL_FAILED, detail=UNANSWERED))
            )
            self._record(one.slot, None)
        return len(left)

    def _record(self, slot: Slot, answer: ModelAnswer | None) -> None:
        """On the tape, if there is one: a question and what came of it."""
        if self._tape is not None:
            failure = None if answer else RecordedFailure.of(ModelError(UNANSWERED))
            prompt = self._search.proposer().question(slot)
            self._tape.add(Exchange(model=slot.model, prompt=prompt, answer=answer, failure=failure))

    def _asked(self) -> int:
        """How many questions of this run are answered or given up."""
        slots = [*self._before(), *self._search.next_slots()]
        return sum(bool(slot.model) for slot in slots) - len(self.questions())

    def _before(self) -> list[Slot]:
        """The slots of the generations that are finished."""
        ledger = self._search.ledger
        return [slot for number in range(self._search.state.generation) for slot in ledger.planned(number)]

    def _take(self, one: PendingCandidate, record: Record) -> str:
        ours = one.candidate.model_copy(update={"task": self._search.task})  # with its ancestry, which a batch may lose
        named = record.model_copy(update={"candidate": ours})
        update = {"outcome": SlotOutcome.EVALUATED, "candidate": named.candidate.id}
        result = Result(one.proposal.model_copy(update=update), named)
        self._search.ledger.finish(result)
        return self._line(result)

    def _ready(self) -> tuple[tuple[Slot, ...], list[Slot]]:
        """The slots of the open generation, and those of them that can go on."""
        slots = self._search.next_slots()
        if not slots:
            return (), []
        known = self._search.ledger.answers(slots[0].generation)
        done = self._done(slots)
        return slots, [slot for slot in slots if slot.name not in done and (not slot.model or slot.name in known)]

    async def _run(self, slots: Sequence[Slot], evaluate: Evaluate | None) -> list[Made]:
        with ThreadPoolExecutor(self._jobs) as pool:
            crew = Crew(evaluate or _nobody, pool, Ensemble([Somebody()]), self._screen)
            generation = self._search.generation(slots, crew)
            generation.evaluate = len(self._search.next_slots())
            if evaluate is None:
                return await generation.prepare()
            await generation.run()
            return []

    def _told(self, slots: Sequence[Slot], ready: Sequence[Slot]) -> Told:
        left = tuple(one.slot.name for one in self.questions()) if slots else ()
        finished = self._search.ledger.finished(slots[0].generation) if slots else []
        names = {slot.name for slot in ready}
        lines = tuple(self._line(one) for one in finished if one.slot.name in names)
        closed = bool(slots) and self._search.close(slots)
        return Told(lines, closed, tuple(self._search.ledger.waiting()), left)

    def _line(self, one: Result) -> str:
        """What came of a slot and what it earned, whether or not its generation is complete."""
        found = fitness(one.record) if one.record is not None else None
        if found is None:
            return words(one)
        base = self._search.state.population.base
        over = gain(found, base) if base else None
        more = f", {over:.2f}× the first kernel" if over else ""
        return f"{words(one)}: {found.score.words}{more}"

    def _done(self, slots: Sequence[Slot]) -> set[str]:
        return {one.slot.name for one in self._search.ledger.finished(slots[0].generation)} if slots else set()


def open_slots(search: Search) -> tuple[str, ...]:
    """The names of the slots that were begun and are not finished; plans nothing."""
    number = search.state.generation
    done = {one.slot.name for one in search.ledger.finished(number)}
    return tuple(slot.name for slot in search.ledger.planned(number) if slot.name not in done)


def _nobody(candidate: Candidate) -> Record:
    raise UsageError("Nothing is evaluated here.")
