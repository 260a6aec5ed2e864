"""Slots of a generation, and their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from warpsmith.llm import ModelAnswer
from warpsmith.records import Candidate, Model, Record


class Slot(Model):
    """One place of a generation: operator, model, parents and idea. Its name is unique in the run."""

    generation: int
    place: int
    operator: str
    model: str = ""
    parents: tuple[str, ...] = ()
    idea: str = ""
    macros: Mapping[str, str] = Field(default_factory=dict)
    broken: str = ""  # the slot of the failed kernel that it repairs

    @property
    def name(self) -> str:
        """The generation and the place."""
        # The name is the key of the slot's notes, and a seed of its draws: it must not change for a resumed run.
        return f"{self.generation}.{self.place}"


class SlotOutcome(StrEnum):
    """The end of a slot."""

    EVALUATED = "evaluated"
    BAD_ANSWER = "bad_answer"  # the model's answer holds no kernel
    MODEL_FAILED = "model_failed"  # the model gave no answer
    OUT_OF_BUDGET = "out_of_budget"  # the answer could cost more than the rest of the budget
    DUPLICATE = "duplicate"
    STOPPED = "stopped"  # a verifier objected, so the kernel was not evaluated
    PASSED_OVER = "passed_over"  # other proposals of the generation were evaluated instead


class Proposal(Model):
    """A slot with its outcome, as saved."""

    slot: Slot
    outcome: SlotOutcome
    detail: str = ""
    name: str = ""  # the model's name for its kernel
    thought: str = ""
    candidate: str = ""  # the candidate's id
    usd: float = 0.0
    free: bool = False  # the price is known to be 0; otherwise 0 means an unknown price
    source: str = ""  # of a kernel that was not evaluated, so that a later slot can repair it

    @property
    def price_usd(self) -> float | None:
        """Return the cost in US dollars, or None if it is unknown."""
        return self.usd if self.usd or self.free else None


class Opinion(Model):
    """The verifiers' decision on a candidate, with the answers of reviewers."""

    go: bool = True
    confidence: float = 1.0  # the probability that the kernel is right
    why: str = ""
    answers: tuple[ModelAnswer, ...] = ()  # of reviewers

    @property
    def usd(self) -> float:
        """The cost of the reviewers in US dollars."""
        return sum(answer.usd or 0.0 for answer in self.answers)


Screen = Callable[[Candidate], Opinion]


@dataclass(frozen=True)
class Result:
    """A finished slot with the record of its candidate, if that was evaluated."""

    proposal: Proposal
    record: Record | None = None

    @property
    def slot(self) -> Slot:
        """The slot of the proposal."""
        return self.proposal.slot


def harness_errors(one: Result) -> tuple[str, ...]:
    """Return the error of an evaluation that failed through no fault of the kernel."""
    result = one.record.ended if one.record is not None else None
    # Blameless: a disturbed GPU or a fault of the harness, which says nothing about the kernel.
    return (result.detail,) if result is not None and result.blameless else ()


def outcome_word(one: Result) -> str:
    """Return the slot's outcome, or the verdict and reason of its record, as a word to count."""
    if one.record is None:
        return one.proposal.outcome.value
    result = one.record.ended
    return one.record.concluded.value if result is None else f"{result.verdict.value} ({result.reason})"
