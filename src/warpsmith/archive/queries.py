"""The questions as SQL that every database understands. What was said last of a kernel counts."""

from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from warpsmith.archive.entry import QueryScope
from warpsmith.archive.tables import records, scores
from warpsmith.records import CHANCE, Verdict

Query: TypeAlias = Select[Any]
AGAINST = (Verdict.FAIL.value, Verdict.QUARANTINE.value)
SCORE_COLUMNS = (scores.c.kind, scores.c.value, scores.c.low, scores.c.high, scores.c.cases, scores.c.basis)


def conditions(scope: QueryScope) -> list[ColumnElement[bool]]:
    """The scope as conditions on `records`."""
    fields = {name: getattr(scope, name) for name in scope.__dataclass_fields__}
    return [records.c[name] == value for name, value in fields.items() if value is not None]


def entries(scope: QueryScope) -> Query:
    """Every record of a scope with its score, in the order of adding."""
    joined = records.outerjoin(scores, scores.c.record == records.c.id)
    return select(records, *SCORE_COLUMNS).select_from(joined).where(*conditions(scope)).order_by(records.c.id)


def rankings(scope: QueryScope) -> Query:
    """The sets of comparable scores: measured before modelled, then most cases, then most records."""
    count = func.count().label("total")
    return (
        select(scores.c.basis, scores.c.kind, scores.c.cases, count)
        .join(records, records.c.id == scores.c.record)
        .where(*conditions(scope))
        .group_by(scores.c.basis, scores.c.kind, scores.c.cases)
        .order_by(scores.c.kind, scores.c.cases.desc(), count.desc(), func.max(records.c.id).desc())
    )


def elites(scope: QueryScope, basis: str, limit: int) -> Query:
    """The kernels of one ranking, best first, each by its last evaluation; one that failed since is not there."""
    best = _standing(scope, basis).order_by(scores.c.value.desc(), records.c.id).limit(limit).subquery()
    joined = records.join(best, best.c.id == records.c.id).join(scores, scores.c.record == records.c.id)
    return select(records, *SCORE_COLUMNS).select_from(joined).order_by(scores.c.value.desc(), records.c.id)


def _standing(scope: QueryScope, basis: str) -> Query:
    """The rows that count of one ranking. Ids alone: to sort rows with their texts would copy every text."""
    same = and_(scores.c.record == records.c.id, scores.c.basis == basis)
    against = and_(records.c.verdict.in_(AGAINST), records.c.reason.not_in(CHANCE))
    last = (
        select(func.max(records.c.id).label("id"))
        .select_from(records.outerjoin(scores, same))
        .where(or_(scores.c.record.is_not(None), against), *conditions(scope))
        .group_by(records.c.candidate)
        .subquery()
    )
    return select(records.c.id).select_from(records.join(last, last.c.id == records.c.id).join(scores, same))


def outcomes(scope: QueryScope) -> Query:
    """How many records ended at which stage and why."""
    columns = (records.c.stage, records.c.verdict, records.c.reason)
    count = func.count().label("count")
    return select(*columns, count).where(*conditions(scope)).group_by(*columns).order_by(count.desc(), *columns)


def firsts(scope: QueryScope, candidates: frozenset[str]) -> Query:
    """The first record of each candidate: the one that says where the search had it from."""
    first = (
        select(func.min(records.c.id))
        .where(records.c.candidate.in_(candidates), *conditions(scope))
        .group_by(records.c.candidate)
    )
    return entries(QueryScope()).where(records.c.id.in_(first))
