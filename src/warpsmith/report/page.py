"""The data of a report as frozen models."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from warpsmith.records import (
    Environment,
    HotLine,
    Lesson,
    Model,
    ModelCall,
    ProfileFacts,
    Ratio,
    Record,
    Run,
    SpeedComparison,
)

Kind = Literal["measured", "modelled", "none"]


class Headline(Model):
    """The result of a run as a sentence and as numbers. A modelled time has no interval and no baseline."""

    kind: Kind
    sentence: str
    value: float | None = None  # a speedup, or modelled µs
    low: float | None = None
    high: float | None = None
    level: float | None = None  # of the interval of each case
    against: str = ""
    gain: float | None = None  # over the first kernel of the run that was right, by the same kind of time


class Point(Model):
    """One evaluation with a score."""

    evaluation: int  # its place in the run, from 1
    usd: float  # spent up to then
    value: float
    kernel: str
    operator: str = ""
    better: bool = False  # than everything before it


class ScoreHistory(Model):
    """The scores of one ranking in evaluation order; long histories keep every improvement and a share of the rest."""

    kind: Kind = "none"
    unit: str = ""
    scored: int = 0
    points: tuple[Point, ...] = ()


class StageCount(Model):
    """The number of proposals or evaluations that ended at one stage for one reason."""

    stage: str
    verdict: str
    reason: str
    count: int


class StageRow(Model):
    """Verdict counts and total seconds of one stage over a run."""

    stage: str
    passed: int = 0
    failed: int = 0
    quarantined: int = 0
    skipped: int = 0
    faults: int = 0
    seconds: float = 0.0

    @property
    def seen(self) -> int:
        """Return the number of evaluations that reached the stage."""
        return self.passed + self.failed + self.quarantined + self.skipped + self.faults


class VerifierSummary(Model):
    """Candidates stopped before the check, candidates that failed the check, and seconds saved."""

    stopped: int = 0
    reached: int = 0  # came to the check
    missed: int = 0  # came to the check and failed it
    evaluation_s: float | None = None  # of the check and what follows, the mean
    saved_s: float | None = None


class Node(Model):
    """A kernel of the lineage: its parents, its outcome, and its difference from the first parent."""

    candidate: str
    parent: str = ""
    others: tuple[str, ...] = ()  # further parents
    generation: int = 0
    operator: str = ""
    model: str = ""
    macros: Mapping[str, str] = Field(default_factory=dict)
    outcome: str = ""  # the score in words, or the verdict with its reason
    right: bool = False
    line: bool = False  # an ancestor of the best kernel, or that kernel
    diff: str = ""  # against the parent, macros first
    note: str = ""  # why there is no diff


class CaseRow(Model):
    """One timed case of the best kernel: its time, torch's times, and its worst error over the bound."""

    name: str
    group: str
    shape: str
    dtype: str
    kind: Kind
    us: float
    low_us: float | None = None
    high_us: float | None = None
    call_us: float | None = None  # what a caller waits
    baselines: Mapping[str, float] = Field(default_factory=dict)  # µs
    best: str = ""
    speedup: Ratio | None = None
    claim: SpeedComparison | None = None
    floor_us: float | None = None
    roofline: float | None = None
    error: float | None = None  # the largest over its bound
    notes: tuple[str, ...] = ()


class CheckRow(Model):
    """Checked cases of one group: number of calls and worst error over the bound."""

    group: str
    cases: int
    calls: int
    worst: float | None = None


class Gap(Model):
    """The mean on cases that the search saw, against the mean on held-out cases."""

    unit: str
    seen: float | None = None
    heldout: float | None = None
    checked: int = 0  # held-out cases whose results were checked
    sentence: str = ""

    @property
    def ratio(self) -> float | None:
        """Return held-out over seen; below 1, the kernel is slower on shapes that the search never saw."""
        return self.heldout / self.seen if self.seen and self.heldout else None


class BestKernel(Model):
    """The best kernel: text, lines that take most time, and commands that evaluate it again."""

    candidate: str
    language: str
    macros: Mapping[str, str] = Field(default_factory=dict)
    source: str
    hot: tuple[HotLine, ...] = ()
    profile: str = ""  # in words
    commands: tuple[str, ...] = ()
    record: Record  # the whole of it, so that whoever has the page can grade the kernel again


class RunPage(Model):
    """Everything that a report shows of one run."""

    run: Run
    evaluations: int
    usd: float
    headline: Headline
    progress: ScoreHistory = ScoreHistory()
    funnel: tuple[StageCount, ...] = ()
    stages: tuple[StageRow, ...] = ()
    verifiers: VerifierSummary = VerifierSummary()
    cases: tuple[CaseRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    gap: Gap | None = None
    profile: ProfileFacts | None = None
    lineage: tuple[Node, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    best: BestKernel | None = None
    left_out: tuple[str, ...] = ()


class ReportPage(Model):
    """A report on one or more runs."""

    made: datetime
    package: str
    runs: tuple[RunPage, ...]


class SuiteRow(Model):
    """The best kernel of one task and direction, or none. Means are geometric over the timing cases."""

    task: str
    direction: str
    kind: Kind = "none"
    kernel: str = ""
    macros: Mapping[str, str] = Field(default_factory=dict)
    run: str = ""
    score: str = ""  # in words; where there is none, what the last record says
    sentence: str = ""
    against: Mapping[str, float] = Field(default_factory=dict)  # speedups by torch's modes
    best: float | None = None  # against the best mode of each case
    low: float | None = None
    high: float | None = None
    claim: SpeedComparison | None = None
    tier: str = ""
    older: bool = False  # evaluated before the task became what it is now
    us: float | None = None  # device time, of the row's kind
    call_us: float | None = None
    roofline: float | None = None
    largest: float | None = None  # the share of the roofline where it is longest
    largest_case: str = ""
    checks: tuple[CheckRow, ...] = ()
    gap: Gap | None = None
    cases: tuple[CaseRow, ...] = ()
    environment: Environment | None = None
    date: datetime | None = None


class SuitePage(Model):
    """The leaderboard: one row per task and direction."""

    made: datetime
    package: str
    source: str
    command: str = ""  # that makes it again
    rows: tuple[SuiteRow, ...]
    left_out: tuple[str, ...] = ()
