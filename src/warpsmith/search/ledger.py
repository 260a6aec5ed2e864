"""The notes of a run in the archive.

A slot is finished when its proposal is saved. Proposal and record are one transaction, so a killed process leaves both
or neither.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from warpsmith.archive import Archive
from warpsmith.languages.cuda import cell
from warpsmith.llm import ModelAnswer
from warpsmith.records import GENERATION, LESSON, PROPOSAL, Candidate, Lesson, Model, ModelCall, Record
from warpsmith.search.proposals import MOST_KEPT
from warpsmith.search.selection.population import find_fitness
from warpsmith.search.slots import Opinion, Proposal, Slot
from warpsmith.search.state import Result

WAITING = "waiting"
PLAN, ANSWER, REVIEW = (
    "plan",
    "answer",
    "review",
)  # the generation's number is part of the kind, so that one generation is read alone


class Plan(Model):
    """The slots of a generation."""

    slots: tuple[Slot, ...]


class PendingCandidate(Model):
    """A candidate that another machine evaluates."""

    proposal: Proposal
    candidate: Candidate


@dataclass(frozen=True)
class RunLedger:
    """The notes of one run."""

    archive: Archive
    run: str

    def save_plan(self, slots: Sequence[Slot]) -> None:
        """Save a generation's plan before any of its slots is filled."""
        body = _json(Plan(slots=tuple(slots)))
        self.archive.note(self.run, _kind(PLAN, slots[0].generation), body, name=PLAN)

    def load_plan(self, generation: int) -> tuple[Slot, ...]:
        """Return the slots of a planned generation, or none."""
        found = self.archive.notes(self.run, _kind(PLAN, generation))
        return Plan.model_validate(found[0].body).slots if found else ()

    def save_answer(self, slot: Slot, answer: ModelAnswer, part: str = "") -> None:
        """Save a model's answer and its cost."""
        # One transaction: an answer without its cost would leave a resumed run with too large a budget.
        with self.archive.transaction():
            self.archive.note(self.run, _kind(ANSWER, slot.generation), _json(answer), name=slot.name + part)
            self._spend(slot.operator, answer)

    def save_lost_cost(self, slot: Slot, usd: float) -> None:
        """Save the cost of a request that gave no answer."""
        if usd:
            self.archive.spend(self.run, ModelCall(model=slot.model, operator=slot.operator, usd=usd))

    def load_answers(self, generation: int) -> dict[str, ModelAnswer]:
        """Return a generation's answers by the names of their slots."""
        notes = self.archive.notes(self.run, _kind(ANSWER, generation))
        return {note.name: ModelAnswer.model_validate(note.body) for note in notes}

    def save_review(self, slot: Slot, opinion: Opinion) -> None:
        """Save the reviews of a slot's candidate and their cost."""
        with self.archive.transaction():
            self.archive.note(self.run, _kind(REVIEW, slot.generation), _json(opinion), name=slot.name)
            for answer in opinion.answers:
                self._spend(REVIEW, answer)

    def load_reviews(self, generation: int) -> dict[str, Opinion]:
        """Return a generation's reviews by the names of their slots."""
        notes = self.archive.notes(self.run, _kind(REVIEW, generation))
        return {note.name: Opinion.model_validate(note.body) for note in notes}

    def save_waiting(self, proposal: Proposal, candidate: Candidate) -> None:
        """Save a candidate until its record comes from another machine."""
        body = _json(PendingCandidate(proposal=proposal, candidate=candidate))
        self.archive.note(self.run, WAITING, body, name=proposal.slot.name)

    def load_waiting(self) -> list[PendingCandidate]:
        """Return the candidates that wait for a record."""
        return [PendingCandidate.model_validate(note.body) for note in self.archive.notes(self.run, WAITING)]

    def save_result(self, result: Result) -> None:
        """Save a finished slot in one transaction."""
        slot, record = result.slot, result.record
        # One transaction: after a kill there is a finished slot with its record, or an open slot.
        with self.archive.transaction():
            kind = _kind(PROPOSAL, slot.generation)
            self.archive.note(self.run, kind, _json(result.proposal), name=slot.name)
            # A waiting candidate ends with its result; the deletion belongs to the same transaction.
            self.archive.delete_note(self.run, WAITING, slot.name)
            if record is not None:
                found = find_fitness(record)
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
        """Mark a generation as complete; save its lessons."""
        # The mark and the lessons together: a generation counts as complete only with its lessons.
        with self.archive.transaction():
            self.archive.note(self.run, GENERATION, generation, name=str(generation))
            for number, lesson in enumerate(learned):
                self.archive.note(None, LESSON, _json(lesson), name=f"{self.run}:{generation}:{number}")

    def load_generations(self) -> Iterator[list[Result]]:
        """Yield the results of each complete generation, oldest first."""
        complete = {int(note.name) for note in self.archive.notes(self.run, GENERATION)}
        for generation in sorted(complete):
            yield self.load_results(generation)

    def load_results(self, generation: int) -> list[Result]:
        """Return the finished slots of a generation."""
        notes = self.archive.notes(self.run, _kind(PROPOSAL, generation))
        proposals = [Proposal.model_validate(note.body) for note in notes]
        return [Result(one, self._record(one)) for one in proposals]

    def load_lessons(self) -> list[Lesson]:
        """Return the latest lessons of other runs."""
        notes = self.archive.notes(None, LESSON)
        # Lessons of the run itself follow from its generations, so a resumed run would read them twice.
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
        """Return a finished slot's record, or None."""
        if not proposal.candidate:
            return None
        # The same candidate may be evaluated in several slots; the tag tells which record finished this one.
        entries = self.archive.records(self.run, candidate=proposal.candidate)
        return next((entry.record for entry in entries if entry.tags.proposal == proposal.slot.name), None)


def _kind(what: str, generation: int) -> str:
    return f"{what}-{generation}"


def _json(model: BaseModel) -> JsonValue:
    found: JsonValue = model.model_dump(mode="json")
    return found
