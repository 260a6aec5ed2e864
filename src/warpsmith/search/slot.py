"""A proposal as data: the slot that is planned, and what came of it. Both are notes of the archive."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from warpsmith.records import Model


class Slot(Model):
    """One place of a generation: who proposes, from what, with which idea. Its name is unique in the run."""

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
        return f"{self.generation}.{self.place}"


class SlotOutcome(StrEnum):
    """What came of a slot."""

    EVALUATED = "evaluated"
    BAD_ANSWER = "bad_answer"  # the model's answer holds no kernel
    MODEL_FAILED = "model_failed"  # the model gave no answer
    OUT_OF_BUDGET = "out_of_budget"  # the answer could have cost more than is left
    DUPLICATE = "duplicate"
    STOPPED = "stopped"  # a verifier stopped it before the evaluation
    PASSED_OVER = "passed_over"  # others of its generation looked better


class Proposal(Model):
    """A slot with its outcome: what is known of it beside its record."""

    slot: Slot
    outcome: SlotOutcome
    detail: str = ""
    name: str = ""  # what the model calls its kernel
    thought: str = ""
    candidate: str = ""  # its id
    usd: float = 0.0
    free: bool = False  # asking for it is known to cost nothing; without this 0 is a price that nobody knows
    source: str = ""  # of one that was not evaluated, so that it can be repaired

    @property
    def price_usd(self) -> float | None:
        """What it cost; None when nobody knows."""
        return self.usd if self.usd or self.free else None
