"""Results of archive queries: entries, notes, outcomes, rankings."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from pydantic import JsonValue
from sqlalchemy import Row

from warpsmith.records import Direction, MeasuredScore, Model, ModelledScore, Record, Score, Verdict


@dataclass(frozen=True)
class Tags:
    """Attributes that the search stores with a record."""

    generation: int = 0
    proposal: str = ""
    cost_usd: float = 0.0
    model: str = ""
    operator: str = ""
    cell: str = ""


@dataclass(frozen=True)
class ArchivedEvaluation:
    """One evaluation, by its record's hash; the record is parsed on access."""

    id: str
    number: int  # in the order of adding
    run: str
    key: str
    candidate: str
    task: str
    direction: Direction
    hardware: str
    verdict: Verdict  # SKIP when it was never checked, whatever else passed
    reason: str
    stage: str  # the one that ended the way, else the last
    score: Score | None
    tags: Tags
    created: datetime
    body: str

    # A page of entries holds texts; parsing a record costs far more than reading its row.
    @cached_property
    def record(self) -> Record:
        """The record itself."""
        return Record.parse(self.body)

    @property
    def parents(self) -> tuple[str, ...]:
        """Ids of the direct ancestors, nearest first."""
        return self.record.candidate.parents


@dataclass(frozen=True)
class Note:
    """JSON that a run stores, such as an open proposal or a lesson."""

    name: str
    kind: str
    body: JsonValue
    created: datetime


@dataclass(frozen=True)
class Payment:
    """The cost and time of one model call."""

    usd: float
    created: datetime


class OutcomeCount(Model):
    """The number of evaluations with one stage, verdict and reason."""

    stage: str
    verdict: Verdict
    reason: str
    count: int


@dataclass(frozen=True)
class Ranking:
    """Comparable scores: same task, kind of time, GPU and cases."""

    basis: str
    kind: str
    cases: int
    count: int


@dataclass(frozen=True)
class QueryScope:
    """The records that a query covers; None means all, "" those of `eval`."""

    run: str | None = None
    task: str | None = None
    direction: Direction | None = None
    verdict: Verdict | None = None
    candidate: str | None = None
    key: str | None = None


def read_entry(row: Row[tuple[object, ...]]) -> ArchivedEvaluation:
    """Build an entry from a joined row."""
    tags = Tags(row.generation, row.proposal, row.cost_usd, row.model, row.operator, row.cell)
    return ArchivedEvaluation(
        id=row.entry,
        number=row.id,
        run=row.run,
        key=row.key,
        candidate=row.candidate,
        task=row.task,
        direction=Direction(row.direction),
        hardware=row.hardware,
        verdict=Verdict(row.verdict),
        reason=row.reason,
        stage=row.stage,
        score=_read_score(row),
        tags=tags,
        created=to_datetime(row.created_s),
        body=row.body,
    )


def to_datetime(seconds: float) -> datetime:
    """Convert seconds since the epoch to a datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def _read_score(row: Row[tuple[object, ...]]) -> Score | None:
    """Return the score of a row, or None."""
    if row.value is None:
        return None
    if row.kind == "measured":
        return MeasuredScore(value=row.value, low=row.low, high=row.high, cases=row.cases, basis=row.basis)
    return ModelledScore(value=row.value, cases=row.cases, basis=row.basis)
