"""Records: one candidate, one environment, the options and the stage results."""

from typing import Self, TypeVar

from pydantic import Field, model_validator

from warpsmith.base import digest_json
from warpsmith.records.candidate import Candidate
from warpsmith.records.environment import Environment
from warpsmith.records.facts import CheckFacts, CompileFacts, Facts, TimingFacts
from warpsmith.records.model import Model, Name
from warpsmith.records.options import EvaluationOptions
from warpsmith.records.verdict import Reason, Verdict

# A skipped stage says nothing about the kernel.
GOING_ON = (Verdict.PASS, Verdict.SKIP)  # every other verdict ends the evaluation
CHANCE = (Reason.DISTURBED,)  # reasons about the machine at that moment, not about the kernel
F = TypeVar("F", CheckFacts, CompileFacts, TimingFacts)


class StageResult(Model):
    """Result of one stage. Every verdict but PASS and SKIP needs a reason."""

    stage: Name
    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""
    facts: Facts | None = None
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _require_reason(self) -> Self:
        """Raise ValueError for a missing reason or sentence."""
        # A verdict without a reason could not be explained or counted.
        if self.verdict not in GOING_ON and self.reason is None:
            raise ValueError(f"a {self.verdict} of stage {self.stage} needs a reason")
        if self.verdict is Verdict.SKIP and not self.detail:
            raise ValueError(f"a skip of stage {self.stage} needs a sentence")
        return self

    @property
    def blameless(self) -> bool:
        """Whether the kernel did not cause the result: a fault or a disturbed GPU."""
        return self.verdict is Verdict.FAULT or self.reason in CHANCE


class Record(Model):
    """The complete result of one evaluation. Scores are computed from it, never stored."""

    version: int = 1
    candidate: Candidate
    task_version: Name
    environment: Environment
    options: EvaluationOptions = EvaluationOptions()
    results: tuple[StageResult, ...] = ()

    @property
    def key(self) -> str:
        """Hash of candidate, task version, options and hardware."""
        # Seeds differ between evaluations that are compared, so they are left out. Archives hold keys, so the hashed
        # list never changes (tests/golden).
        stored = self.options.model_dump(mode="json")
        options = {name: value for name, value in stored.items() if name not in ("seeds", "scheme")}
        return digest_json([self.candidate.id, self.task_version, options, self.environment.hardware])

    @property
    def ended(self) -> StageResult | None:
        """The result that ended the evaluation, or None."""
        # At most one: the evaluation ends there, and later stages have no result.
        return next((r for r in self.results if r.verdict not in GOING_ON), None)

    @property
    def blameless(self) -> bool:
        """Whether the evaluation ended without a fault of the kernel."""
        return self.ended is not None and self.ended.blameless

    @property
    def verdict(self) -> Verdict:
        """The verdict that ended the evaluation; PASS if all stages passed."""
        if self.ended is not None:
            return self.ended.verdict
        return Verdict.PASS if self.results else Verdict.SKIP

    @property
    def concluded(self) -> Verdict:
        """The verdict, or SKIP if the check did not run."""
        # A kernel that compiled and was never checked has not passed anything.
        checked = self.result("check")
        if self.verdict is Verdict.PASS and (checked is None or checked.verdict is Verdict.SKIP):
            return Verdict.SKIP
        return self.verdict

    def with_result(self, result: StageResult) -> "Record":
        """Return the record with one more result."""
        return self.model_copy(update={"results": (*self.results, result)})

    def result(self, stage: str) -> StageResult | None:
        """Return a stage's result, or None if it did not run."""
        return next((r for r in self.results if r.stage == stage), None)

    @property
    def compiled(self) -> CompileFacts | None:
        """Facts of the compile stage, or None."""
        return self._facts("compile", CompileFacts)

    @property
    def checked(self) -> CheckFacts | None:
        """Facts of the check stage, or None."""
        return self._facts("check", CheckFacts)

    @property
    def timing(self) -> TimingFacts | None:
        """Facts of the timing stage, or None."""
        return self._facts("timing", TimingFacts)

    def _facts(self, stage: str, kind: type[F]) -> F | None:
        """Return the facts of a stage if they are of a type, or None."""
        found = self.result(stage)
        return found.facts if found and isinstance(found.facts, kind) else None
