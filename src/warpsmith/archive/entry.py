"""What the archive gives back: entries, notes, outcomes, rankings."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from pydantic import JsonValue
from sqlalchemy import Row

from warpsmith.records import Direction, MeasuredScore, Model, ModelledScore, Record, Score, Verdict


@dataclass(frozen=True)
class Tags:
    """What the search says of an evaluation beside its record."""

    generation: int = 0
    proposal: str = ""
    cost_usd: float = 0.0
    model: str = ""
    operator: str = ""
    cell: str = ""


@dataclass(frozen=True)
class ArchivedEvaluation:
    """One evaluation. `id` is the hash of its record; `record` is read from its text when it is asked for."""

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

    @cached_property
    def record(self) -> Record:
        """The record itself."""
        return Record.parse(self.body)

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of the candidates that this one came from, the first the nearest."""
        return self.record.candidate.parents


@dataclass(frozen=True)
class Note:
    """A piece of JSON that a run keeps: a proposal in flight, a lesson."""

    name: str
    kind: str
    body: JsonValue
    created: datetime


@dataclass(frozen=True)
class Payment:
    """What one call of a model cost, and when."""

    usd: float
    created: datetime


class OutcomeCount(Model):
    """How many evaluations ended so."""

    stage: str
    verdict: Verdict
    reason: str
    count: int


@dataclass(frozen=True)
class Ranking:
    """Scores that may be compared: same task, same kind of time, same GPU, same cases."""

    basis: str
    kind: str
    cases: int
    count: int


@dataclass(frozen=True)
class QueryScope:
    """Which records a query is about; None is all. The empty run is what `eval` adds."""

    run: str | None = None
    task: str | None = None
    direction: Direction | None = None
    verdict: Verdict | None = None
    candidate: str | None = None
    key: str | None = None


def entry_of(row: Row[tuple[object, ...]]) -> ArchivedEvaluation:
    """An entry from a row of `records` with its score beside it."""
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
        score=_score(row),
        tags=tags,
        created=moment(row.created_s),
        body=row.body,
    )


def moment(seconds: float) -> datetime:
    """A time of the database as one with its zone."""
    return datetime.fromtimestamp(seconds, UTC)


def _score(row: Row[tuple[object, ...]]) -> Score | None:
    if row.value is None:
        return None
    if row.kind == "measured":
        return MeasuredScore(value=row.value, low=row.low, high=row.high, cases=row.cases, basis=row.basis)
    return ModelledScore(value=row.value, cases=row.cases, basis=row.basis)
