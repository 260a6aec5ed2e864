"""The report as data: one frozen page; text, markdown, HTML and JSON are views of it. Knows no archive and no file."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

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
    """What the run found, in a sentence and in numbers. A modelled time has no interval and is held against nothing."""

    kind: Kind
    sentence: str
    value: float | None = None  # a speedup, or modelled µs
    low: float | None = None
    high: float | None = None
    level: float | None = None  # of the interval of each case
    against: str = ""
    gain: float | None = None  # over the first kernel of the run that was right, by the same kind of time


class Point(Model):
    """One evaluation that has a score."""

    evaluation: int  # its place in the run, from 1
    usd: float  # spent up to then
    value: float
    kernel: str
    operator: str = ""
    better: bool = False  # than everything before it


class ScoreHistory(Model):
    """The scores of one ranking in the order of evaluation; of too many, all that were better and a share."""

    kind: Kind = "none"
    unit: str = ""
    scored: int = 0
    points: tuple[Point, ...] = ()


class StageCount(Model):
    """How many proposals or evaluations ended so."""

    stage: str
    verdict: str
    reason: str
    count: int


class StageRow(Model):
    """What one stage said over the whole run, and how long it took."""

    stage: str
    passed: int = 0
    failed: int = 0
    quarantined: int = 0
    skipped: int = 0
    faults: int = 0
    seconds: float = 0.0

    @property
    def seen(self) -> int:
        """Evaluations that reached it."""
        return self.passed + self.failed + self.quarantined + self.skipped + self.faults


class VerifierSummary(Model):
    """What was stopped before the hard check, what slipped through, and what that saved."""

    stopped: int = 0
    reached: int = 0  # came to the check
    missed: int = 0  # came to the check and failed it
    evaluation_s: float | None = None  # of the check and what follows, the mean
    saved_s: float | None = None


class Confusion(Model):
    """One verifier on the labelled corpus, as `warpsmith calibrate --json` writes it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verifier: str
    caught: int = 0
    missed: int = 0
    alarms: int = 0
    cleared: int = 0
    survivors: int = 0
    usd: float = 0.0
    gpu_saved_s: float = 0.0


class Calibrated(Model):
    """A calibration, as far as a report tells it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    right: int
    wrong: int
    verifiers: tuple[Confusion, ...]
    together: Confusion


class Node(Model):
    """A kernel of the lineage: where it came from, what became of it, how it differs from its parent."""

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
    """One case of the best kernel: its time, torch's times, and how near the error bound it came."""

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
    """The cases of one purpose whose results were checked: calls, and the largest error over its bound."""

    group: str
    cases: int
    calls: int
    worst: float | None = None


class Gap(Model):
    """What the search saw against what was drawn at grading. Near 1: the gain is not of the seen shapes only."""

    unit: str
    seen: float | None = None
    heldout: float | None = None
    checked: int = 0  # held-out cases whose results were checked
    sentence: str = ""

    @property
    def ratio(self) -> float | None:
        """Held-out over seen; below 1 the kernel does worse where nobody looked."""
        return self.heldout / self.seen if self.seen and self.heldout else None


class BestKernel(Model):
    """The winner: its text, the lines where its time goes, and how to grade it again."""

    candidate: str
    language: str
    macros: Mapping[str, str] = Field(default_factory=dict)
    source: str
    hot: tuple[HotLine, ...] = ()
    profile: str = ""  # in words
    commands: tuple[str, ...] = ()
    record: Record  # the whole of it, so that whoever has the page can grade the kernel again


class RunPage(Model):
    """One run: everything that a report says of it."""

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
    """A report over one run or more."""

    made: datetime
    package: str
    runs: tuple[RunPage, ...]
    calibration: Calibrated | None = None


class SuiteRow(Model):
    """One direction of one task: its best kernel, or none. Means are geometric, over the timing cases."""

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
    """The leaderboard: every task by direction."""

    made: datetime
    package: str
    source: str
    command: str = ""  # that makes it again
    rows: tuple[SuiteRow, ...]
    left_out: tuple[str, ...] = ()
