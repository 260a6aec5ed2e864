"""The record: one candidate, one environment, the options it was run with, and what each stage said."""

from typing import Self, TypeVar

from pydantic import Field, model_validator

from warpsmith.base import digest_json
from warpsmith.records.candidate import Candidate
from warpsmith.records.environment import Environment
from warpsmith.records.facts import CheckFacts, CompileFacts, Facts, TimingFacts
from warpsmith.records.model import Model, Name
from warpsmith.records.options import EvaluationOptions
from warpsmith.records.verdict import Reason, Verdict

GOING_ON = (Verdict.PASS, Verdict.SKIP)  # every other verdict ends the way
CHANCE = (Reason.DISTURBED,)  # reasons that say something of the machine at that moment and nothing of the kernel
F = TypeVar("F", CheckFacts, CompileFacts, TimingFacts)


class StageResult(Model):
    """What one stage said. A plain PASS has no reason; anything else has one and a sentence."""

    stage: Name
    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""
    facts: Facts | None = None
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _reasoned(self) -> Self:
        if self.verdict not in GOING_ON and self.reason is None:
            raise ValueError(f"a {self.verdict} of stage {self.stage} needs a reason")
        if self.verdict is Verdict.SKIP and not self.detail:
            raise ValueError(f"a skip of stage {self.stage} needs a sentence")
        return self

    @property
    def blameless(self) -> bool:
        """Whether the kernel is not to blame for it: a fault of ours, or a GPU that was disturbed."""
        return self.verdict is Verdict.FAULT or self.reason in CHANCE


class Record(Model):
    """Everything known of one evaluation. Scores and speedups are functions of this, never stored in it."""

    version: int = 1
    candidate: Candidate
    task_version: Name
    environment: Environment
    options: EvaluationOptions = EvaluationOptions()
    results: tuple[StageResult, ...] = ()

    @property
    def key(self) -> str:
        """The hash of (candidate, task version, options, hardware)."""
        stored = self.options.model_dump(mode="json")
        options = {name: value for name, value in stored.items() if name not in ("seeds", "scheme")}
        return digest_json([self.candidate.id, self.task_version, options, self.environment.hardware])

    @property
    def ended(self) -> StageResult | None:
        """What the stage said that ended the way; None where no stage objected."""
        return next((r for r in self.results if r.verdict not in GOING_ON), None)

    @property
    def blameless(self) -> bool:
        """Whether it ended by no fault of the kernel's: nobody is to learn from it, and it may be tried again."""
        return self.ended is not None and self.ended.blameless

    @property
    def verdict(self) -> Verdict:
        """The first verdict that ended the way, or PASS when no stage objected."""
        if self.ended is not None:
            return self.ended.verdict
        return Verdict.PASS if self.results else Verdict.SKIP

    @property
    def concluded(self) -> Verdict:
        """The verdict; a candidate that was never checked has none, whatever else passed."""
        checked = self.result("check")
        if self.verdict is Verdict.PASS and (checked is None or checked.verdict is Verdict.SKIP):
            return Verdict.SKIP
        return self.verdict

    def adding(self, result: StageResult) -> "Record":
        """This record with one more result."""
        return self.model_copy(update={"results": (*self.results, result)})

    def result(self, stage: str) -> StageResult | None:
        """What a stage said, if it ran."""
        return next((r for r in self.results if r.stage == stage), None)

    @property
    def compiled(self) -> CompileFacts | None:
        """What the compiler said, where it was asked."""
        return self._facts("compile", CompileFacts)

    @property
    def checked(self) -> CheckFacts | None:
        """What was checked, where anything was."""
        return self._facts("check", CheckFacts)

    @property
    def timing(self) -> TimingFacts | None:
        """The times, where it was timed."""
        return self._facts("timing", TimingFacts)

    def _facts(self, stage: str, kind: type[F]) -> F | None:
        found = self.result(stage)
        return found.facts if found and isinstance(found.facts, kind) else None
