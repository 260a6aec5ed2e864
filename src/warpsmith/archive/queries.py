"""Queries in SQL that every supported database understands."""

from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from warpsmith.archive.entry import QueryScope
from warpsmith.archive.tables import records, scores
from warpsmith.records import CHANCE, Verdict

Query: TypeAlias = Select[Any]
AGAINST = (Verdict.FAIL.value, Verdict.QUARANTINE.value)
SCORE_COLUMNS = (scores.c.kind, scores.c.value, scores.c.low, scores.c.high, scores.c.cases, scores.c.basis)


def scope_conditions(scope: QueryScope) -> list[ColumnElement[bool]]:
    """Return the scope as conditions on `records`."""
    fields = {name: getattr(scope, name) for name in scope.__dataclass_fields__}
    return [records.c[name] == value for name, value in fields.items() if value is not None]


def select_entries(scope: QueryScope) -> Query:
    """Select a scope's records with scores, in order."""
    joined = records.outerjoin(scores, scores.c.record == records.c.id)
    # The number of a row grows with each insert, so the order of numbers is the order of adding.
    return select(records, *SCORE_COLUMNS).select_from(joined).where(*scope_conditions(scope)).order_by(records.c.id)


def select_rankings(scope: QueryScope) -> Query:
    """Select the sets of comparable scores, measured first."""
    count = func.count().label("total")
    return (
        select(scores.c.basis, scores.c.kind, scores.c.cases, count)
        .join(records, records.c.id == scores.c.record)
        .where(*scope_conditions(scope))
        .group_by(scores.c.basis, scores.c.kind, scores.c.cases)
        # "measured" sorts before "modelled", so the kind is the first key of the order.
        .order_by(scores.c.kind, scores.c.cases.desc(), count.desc(), func.max(records.c.id).desc())
    )


def select_elites(scope: QueryScope, basis: str, limit: int, start: int = 0) -> Query:
    """Select the kernels of one ranking, best first, without failed ones."""
    ordered = _select_ranked(scope, basis).order_by(scores.c.value.desc(), records.c.id)
    best = ordered.limit(limit).offset(start).subquery()
    joined = records.join(best, best.c.id == records.c.id).join(scores, scores.c.record == records.c.id)
    return select(records, *SCORE_COLUMNS).select_from(joined).order_by(scores.c.value.desc(), records.c.id)


def _select_ranked(scope: QueryScope, basis: str) -> Query:
    """Select the ids of the counted rows of one ranking."""
    # A kernel counts by its last evaluation that has a score or ended against the kernel. A reason in CHANCE (a limit
    # of the machine, not a defect) does not count. Whole rows would copy every text during the sort, so ids are
    # selected first.
    same = and_(scores.c.record == records.c.id, scores.c.basis == basis)
    against = and_(records.c.verdict.in_(AGAINST), records.c.reason.not_in(CHANCE))
    last = (
        select(func.max(records.c.id).label("id"))
        .select_from(records.outerjoin(scores, same))
        .where(or_(scores.c.record.is_not(None), against), *scope_conditions(scope))
        .group_by(records.c.candidate)
        .subquery()
    )
    return select(records.c.id).select_from(records.join(last, last.c.id == records.c.id).join(scores, same))


def select_outcomes(scope: QueryScope) -> Query:
    """Count records by final stage, verdict and reason."""
    columns = (records.c.stage, records.c.verdict, records.c.reason)
    count = func.count().label("count")
    return select(*columns, count).where(*scope_conditions(scope)).group_by(*columns).order_by(count.desc(), *columns)


def select_first_records(scope: QueryScope, candidates: frozenset[str]) -> Query:
    """Select the first record of each candidate, which states its parents."""
    first = (
        select(func.min(records.c.id))
        .where(records.c.candidate.in_(candidates), *scope_conditions(scope))
        .group_by(records.c.candidate)
    )
    return select_entries(QueryScope()).where(records.c.id.in_(first))
