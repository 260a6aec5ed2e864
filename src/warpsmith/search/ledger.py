"""What a run writes down, and how it is read again: plans, answers, reviews, proposals, generations, lessons.

A slot is finished when its proposal is noted; proposal and record are one transaction, so a kill leaves both or none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from warpsmith.archive import Archive
from warpsmith.languages.cuda import cell
from warpsmith.llm import ModelAnswer
from warpsmith.records import GENERATION, LESSON, PROPOSAL, Candidate, Lesson, Model, ModelCall, Record
from warpsmith.search.proposals import MOST_KEPT, Opinion
from warpsmith.search.selection.fitness import fitness
from warpsmith.search.slot import Proposal, Slot
from warpsmith.search.state import Result

WAITING = "waiting"
PLAN, ANSWER, REVIEW = "plan", "answer", "review"  # of one generation as PROPOSAL is, so that each is read by itself


class Plan(Model):
    """The slots of a generation."""

    slots: tuple[Slot, ...]


class PendingCandidate(Model):
    """A candidate that is evaluated elsewhere."""

    proposal: Proposal
    candidate: Candidate


@dataclass(frozen=True)
class RunLedger:
    """One run in the archive."""

    archive: Archive
    run: str

    def plan(self, slots: Sequence[Slot]) -> None:
        """Keep a generation's plan before anything of it is done."""
        body = _json(Plan(slots=tuple(slots)))
        self.archive.note(self.run, _kind(PLAN, slots[0].generation), body, name=PLAN)

    def planned(self, generation: int) -> tuple[Slot, ...]:
        """The plan of a generation that was begun; none when it was not."""
        found = self.archive.notes(self.run, _kind(PLAN, generation))
        return Plan.model_validate(found[0].body).slots if found else ()

    def answer(self, slot: Slot, answer: ModelAnswer, part: str = "") -> None:
        """Keep what a model said, and what it cost, before it is looked at."""
        with self.archive.transaction():
            self.archive.note(self.run, _kind(ANSWER, slot.generation), _json(answer), name=slot.name + part)
            self._spend(slot.operator, answer)

    def lose(self, slot: Slot, usd: float) -> None:
        """Keep what a model cost that gave no answer."""
        if usd:
            self.archive.spend(self.run, ModelCall(model=slot.model, operator=slot.operator, usd=usd))

    def answers(self, generation: int) -> dict[str, ModelAnswer]:
        """What models said in a generation, by slot."""
        notes = self.archive.notes(self.run, _kind(ANSWER, generation))
        return {note.name: ModelAnswer.model_validate(note.body) for note in notes}

    def review(self, slot: Slot, opinion: Opinion) -> None:
        """Keep what reviewers said of a slot's candidate, and what it cost, whatever becomes of the candidate."""
        with self.archive.transaction():
            self.archive.note(self.run, _kind(REVIEW, slot.generation), _json(opinion), name=slot.name)
            for answer in opinion.answers:
                self._spend(REVIEW, answer)

    def reviews(self, generation: int) -> dict[str, Opinion]:
        """What reviewers said in a generation, by slot."""
        notes = self.archive.notes(self.run, _kind(REVIEW, generation))
        return {note.name: Opinion.model_validate(note.body) for note in notes}

    def wait(self, proposal: Proposal, candidate: Candidate) -> None:
        """Keep a candidate that is evaluated elsewhere, until its record comes."""
        body = _json(PendingCandidate(proposal=proposal, candidate=candidate))
        self.archive.note(self.run, WAITING, body, name=proposal.slot.name)

    def waiting(self) -> list[PendingCandidate]:
        """The candidates that wait for a record."""
        return [PendingCandidate.model_validate(note.body) for note in self.archive.notes(self.run, WAITING)]

    def finish(self, result: Result) -> None:
        """Keep a finished slot: its proposal and its record, both or none."""
        slot, record = result.slot, result.record
        with self.archive.transaction():
            kind = _kind(PROPOSAL, slot.generation)
            self.archive.note(self.run, kind, _json(result.proposal), name=slot.name)
            self.archive.delete_note(self.run, WAITING, slot.name)
            if record is not None:
                found = fitness(record)
                binding = found.binding if found else ""
                self.archive.add(
                    self.run,
                    record,
                    generation=slot.generation,
                    proposal=slot.name,
                    cost_usd=result.proposal.usd,
                    model=slot.model,
                    operator=slot.operator,
                    cell=cell(record.candidate.source, record.candidate.macros, binding),
                )

    def close_generation(self, generation: int, learned: Sequence[Lesson]) -> None:
        """A generation is complete; its lessons stay, for this run and for other tasks."""
        with self.archive.transaction():
            self.archive.note(self.run, GENERATION, generation, name=str(generation))
            for number, lesson in enumerate(learned):
                self.archive.note(None, LESSON, _json(lesson), name=f"{self.run}:{generation}:{number}")

    def generations(self) -> Iterator[list[Result]]:
        """The results of every complete generation, oldest first, one in memory at a time."""
        complete = {int(note.name) for note in self.archive.notes(self.run, GENERATION)}
        for generation in sorted(complete):
            yield self.finished(generation)

    def finished(self, generation: int) -> list[Result]:
        """The finished slots of a generation."""
        notes = self.archive.notes(self.run, _kind(PROPOSAL, generation))
        proposals = [Proposal.model_validate(note.body) for note in notes]
        return [Result(one, self._record(one)) for one in proposals]

    def lessons(self) -> list[Lesson]:
        """What was learned in other runs, the latest."""
        notes = self.archive.notes(None, LESSON)
        own = f"{self.run}:"
        return [Lesson.model_validate(note.body) for note in notes if not note.name.startswith(own)][-MOST_KEPT:]

    def _spend(self, operator: str, answer: ModelAnswer) -> None:
        call = ModelCall(
            model=answer.model,
            operator=operator,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            usd=answer.usd or 0.0,
            seconds=answer.seconds,
        )
        self.archive.spend(self.run, call)

    def _record(self, proposal: Proposal) -> Record | None:
        """The record that finished a slot."""
        if not proposal.candidate:
            return None
        entries = self.archive.records(self.run, candidate=proposal.candidate)
        return next((entry.record for entry in entries if entry.tags.proposal == proposal.slot.name), None)


def _kind(what: str, generation: int) -> str:
    return f"{what}-{generation}"


def _json(model: BaseModel) -> JsonValue:
    found: JsonValue = model.model_dump(mode="json")
    return found
