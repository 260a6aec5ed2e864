"""One pass over the records of a run: stage counts, and every kernel's parents and score."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ConfigDict, Field

from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.records import GENERATION, PROPOSAL, Model, Reason, Score, Verdict
from warpsmith.report.page import StageCount, StageRow, VerifierSummary
from warpsmith.report.words import describe_score

ORDER = ("proposal", "static", "compile", "virtual", "check", "sanitizer", "record", "timing", "profile")
EVALUATED, STOPPED = "evaluated", "stopped"  # what came of a proposal; a test holds the names
BEFORE = ("static", "compile", "virtual")  # verifiers: cheaper than the check
COLUMNS = {
    Verdict.PASS: "passed",
    Verdict.FAIL: "failed",
    Verdict.QUARANTINE: "quarantined",
    Verdict.SKIP: "skipped",
    Verdict.FAULT: "faults",
}


class PartialModel(Model):
    """A part of a record; other fields are not parsed, which makes ten thousand records ten times cheaper to read."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StageSummary(PartialModel):
    stage: str
    verdict: Verdict
    reason: Reason | None = None
    seconds: float = 0.0


class KernelSummary(PartialModel):
    macros: Mapping[str, str] = Field(default_factory=dict)
    parents: tuple[str, ...] = ()
    origin: str = ""


class RecordSummary(PartialModel):
    """A record without facts and source."""

    candidate: KernelSummary
    results: tuple[StageSummary, ...] = ()


@dataclass(frozen=True)
class EvaluationSummary:
    """One evaluation, for lineage and progress."""

    number: int  # in the run, from 1
    candidate: str
    parents: tuple[str, ...]
    macros: Mapping[str, str]
    generation: int
    operator: str
    model: str
    verdict: Verdict
    outcome: str
    score: Score | None
    usd: float  # spent up to here


@dataclass
class RunScan:
    """All evaluations of a run, without kernel texts."""

    evaluations: list[EvaluationSummary] = field(default_factory=list)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    stopped: int = 0
    reached: int = 0
    missed: int = 0
    hard_s: float = 0.0

    def take(self, entry: ArchivedEvaluation, usd: float) -> None:
        """Add one evaluation; `usd` is the total spent by then."""
        # Only the fields of RecordSummary are parsed: facts and source are the larger part of a record.
        glance = RecordSummary.model_validate_json(entry.body)
        self.evaluations.append(_summarize(entry, glance, len(self.evaluations) + 1, usd))
        for said in glance.results:
            row = self.stages.setdefault(said.stage, {})
            row[COLUMNS[said.verdict]] = row.get(COLUMNS[said.verdict], 0) + 1
            row["seconds"] = row.get("seconds", 0.0) + said.seconds
        self._judge(entry, glance)

    def _judge(self, entry: ArchivedEvaluation, glance: RecordSummary) -> None:
        # A check that was skipped has neither passed nor failed a kernel.
        checked = any(said.stage == "check" and said.verdict is not Verdict.SKIP for said in glance.results)
        self.reached += checked
        self.missed += checked and entry.verdict is Verdict.FAIL and entry.stage == "check"
        self.stopped += not checked and entry.verdict is Verdict.FAIL and entry.stage in BEFORE
        if checked:
            # Seconds of the check and the later stages: verifiers save these.
            self.hard_s += sum(said.seconds for said in glance.results if said.stage not in BEFORE)

    def rows(self) -> tuple[StageRow, ...]:
        """Return the stage rows in evaluation order."""
        return tuple(
            StageRow.model_validate({"stage": stage, **self.stages[stage]})
            for stage in sorted(self.stages, key=_stage_order)
        )

    def verifiers(self, never: int) -> VerifierSummary:
        """Return the verifier summary; `never` proposals were stopped before an evaluation."""
        stopped, mean = self.stopped + never, self.hard_s / self.reached if self.reached else None
        saved = stopped * mean if mean is not None else None
        return VerifierSummary(
            stopped=stopped, reached=self.reached, missed=self.missed, evaluation_s=mean, saved_s=saved
        )


class ProposalOutcome(PartialModel):
    """A proposal's outcome, as the search saves it."""

    outcome: str


def scan_run(archive: Archive, run: str) -> RunScan:
    """Read every evaluation of a run once; its cost is the total of all model calls before it."""
    found, paid, usd = RunScan(), deque(archive.payments(run)), 0.0
    for entry in archive.records(run):
        # Calls and records both come in the order of time, so one pass joins them.
        while paid and paid[0].created <= entry.created:
            usd += paid.popleft().usd
        found.take(entry, usd)
    return found


def count_unevaluated(archive: Archive, run: str) -> dict[str, int]:
    """Count proposals without an evaluation, by outcome."""
    counts: dict[str, int] = {}
    for generation in archive.notes(run, GENERATION):
        # The kind of a proposal's note holds the number of its generation (search/ledger.py).
        for note in archive.notes(run, f"{PROPOSAL}-{generation.name}"):
            outcome = ProposalOutcome.model_validate(note.body).outcome
            if outcome != EVALUATED:
                counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def count_outcomes(archive: Archive, run: str, never: Mapping[str, int]) -> tuple[StageCount, ...]:
    """Count proposals and evaluations by final stage."""
    steps = [StageCount(stage=PROPOSAL, verdict=word, reason="", count=count) for word, count in sorted(never.items())]
    steps += [
        StageCount(stage=one.stage or "none", verdict=one.verdict.value, reason=one.reason, count=one.count)
        for one in archive.outcomes(run)
    ]
    return tuple(sorted(steps, key=lambda step: (_stage_order(step.stage), step.verdict == "pass", -step.count)))


def candidate_ids(evaluations: Iterable[EvaluationSummary]) -> frozenset[str]:
    """Return the candidates of some evaluations."""
    return frozenset(evaluation.candidate for evaluation in evaluations)


def _summarize(entry: ArchivedEvaluation, glance: RecordSummary, number: int, usd: float) -> EvaluationSummary:
    ended = f"{entry.verdict.value} at {entry.stage}" + (f": {entry.reason}" if entry.reason else "")
    kernel = glance.candidate
    return EvaluationSummary(
        number=number,
        candidate=entry.candidate,
        parents=kernel.parents,
        macros=kernel.macros,
        generation=entry.tags.generation,
        operator=entry.tags.operator or kernel.origin,
        model=entry.tags.model,
        verdict=entry.verdict,
        outcome=describe_score(entry.score) if entry.score else ended,
        score=entry.score,
        usd=usd,
    )


def _stage_order(stage: str) -> int:
    # A stage of a newer version comes last.
    return ORDER.index(stage) if stage in ORDER else len(ORDER)
