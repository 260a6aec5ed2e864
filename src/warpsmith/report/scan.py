"""One pass over a run's records: what each stage said, every kernel's parents and score. Keeps no text of a kernel."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ConfigDict, Field

from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.records import GENERATION, PROPOSAL, Model, Reason, Score, Verdict
from warpsmith.report.page import StageCount, StageRow, VerifierSummary
from warpsmith.report.words import score_words

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


class _Lean(Model):
    """Part of a record: what stands beside is not read, so that ten thousand records cost a second and not ten."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Said(_Lean):
    stage: str
    verdict: Verdict
    reason: Reason | None = None
    seconds: float = 0.0


class _Kernel(_Lean):
    macros: Mapping[str, str] = Field(default_factory=dict)
    parents: tuple[str, ...] = ()
    origin: str = ""


class Glance(_Lean):
    """A record without its facts and its source."""

    candidate: _Kernel
    results: tuple[_Said, ...] = ()


@dataclass(frozen=True)
class Sight:
    """One evaluation, as far as tree and progress need it."""

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
class Scan:
    """All evaluations of a run, without their texts."""

    sights: list[Sight] = field(default_factory=list)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    stopped: int = 0
    reached: int = 0
    missed: int = 0
    hard_s: float = 0.0

    def take(self, entry: ArchivedEvaluation, usd: float) -> None:
        """Count one evaluation; `usd` are spent by then."""
        glance = Glance.model_validate_json(entry.body)
        self.sights.append(_sight(entry, glance, len(self.sights) + 1, usd))
        for said in glance.results:
            row = self.stages.setdefault(said.stage, {})
            row[COLUMNS[said.verdict]] = row.get(COLUMNS[said.verdict], 0) + 1
            row["seconds"] = row.get("seconds", 0.0) + said.seconds
        self._judge(entry, glance)

    def _judge(self, entry: ArchivedEvaluation, glance: Glance) -> None:
        checked = any(said.stage == "check" and said.verdict is not Verdict.SKIP for said in glance.results)
        self.reached += checked
        self.missed += checked and entry.verdict is Verdict.FAIL and entry.stage == "check"
        self.stopped += not checked and entry.verdict is Verdict.FAIL and entry.stage in BEFORE
        if checked:
            self.hard_s += sum(said.seconds for said in glance.results if said.stage not in BEFORE)

    def rows(self) -> tuple[StageRow, ...]:
        """The stages in the order that a candidate goes through them."""
        return tuple(
            StageRow.model_validate({"stage": stage, **self.stages[stage]}) for stage in sorted(self.stages, key=_place)
        )

    def verifiers(self, never: int) -> VerifierSummary:
        """The balance; `never` proposals were stopped before they became an evaluation."""
        stopped, mean = self.stopped + never, self.hard_s / self.reached if self.reached else None
        saved = stopped * mean if mean is not None else None
        return VerifierSummary(
            stopped=stopped, reached=self.reached, missed=self.missed, evaluation_s=mean, saved_s=saved
        )


class Proposed(_Lean):
    """A proposal's note, as the search keeps it."""

    outcome: str


def scan_run(archive: Archive, run: str) -> Scan:
    """Read every evaluation of a run once. Its dollars are those of all calls before, whatever came of these."""
    found, paid, usd = Scan(), deque(archive.payments(run)), 0.0
    for entry in archive.records(run):
        while paid and paid[0].created <= entry.created:
            usd += paid.popleft().usd
        found.take(entry, usd)
    return found


def never_evaluated(archive: Archive, run: str) -> dict[str, int]:
    """How many proposals ended before an evaluation, by outcome."""
    counts: dict[str, int] = {}
    for generation in archive.notes(run, GENERATION):
        for note in archive.notes(run, f"{PROPOSAL}-{generation.name}"):
            outcome = Proposed.model_validate(note.body).outcome
            if outcome != EVALUATED:
                counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def funnel(archive: Archive, run: str, never: Mapping[str, int]) -> tuple[StageCount, ...]:
    """Where the way of proposals and evaluations ended, in the order of the stages."""
    steps = [StageCount(stage=PROPOSAL, verdict=word, reason="", count=count) for word, count in sorted(never.items())]
    steps += [
        StageCount(stage=one.stage or "none", verdict=one.verdict.value, reason=one.reason, count=one.count)
        for one in archive.outcomes(run)
    ]
    return tuple(sorted(steps, key=lambda step: (_place(step.stage), step.verdict == "pass", -step.count)))


def ids(sights: Iterable[Sight]) -> frozenset[str]:
    """The candidates of some evaluations."""
    return frozenset(sight.candidate for sight in sights)


def _sight(entry: ArchivedEvaluation, glance: Glance, number: int, usd: float) -> Sight:
    ended = f"{entry.verdict.value} at {entry.stage}" + (f": {entry.reason}" if entry.reason else "")
    kernel = glance.candidate
    return Sight(
        number=number,
        candidate=entry.candidate,
        parents=kernel.parents,
        macros=kernel.macros,
        generation=entry.tags.generation,
        operator=entry.tags.operator or kernel.origin,
        model=entry.tags.model,
        verdict=entry.verdict,
        outcome=score_words(entry.score) if entry.score else ended,
        score=entry.score,
        usd=usd,
    )


def _place(stage: str) -> int:
    return ORDER.index(stage) if stage in ORDER else len(ORDER)
