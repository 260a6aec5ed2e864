"""Conversion of a record to table rows."""

from dataclasses import asdict
from typing import Any, TypeAlias

from warpsmith.archive.entry import Tags
from warpsmith.base import digest
from warpsmith.records import MeasuredScore, Record, score

Row: TypeAlias = dict[str, Any]  # the edge to SQL


def record_row(run: str, record: Record, tags: Tags, created_s: float) -> Row:
    """Return the row of table `records`."""
    body = record.text()
    ended = record.ended
    last = ended or (record.results[-1] if record.results else None)
    return {
        "run": run,
        # Equal bodies have equal entries, so an evaluation that is added twice meets the unique index (run, entry).
        "entry": digest(body),
        "key": record.key,
        "candidate": record.candidate.id,
        "task": record.candidate.task,
        "direction": record.candidate.direction.value,
        "hardware": record.environment.hardware,
        "verdict": record.concluded.value,
        "reason": ended.reason.value if ended and ended.reason else "",
        "stage": last.stage if last else "",
        **asdict(tags),
        "created_s": created_s,
        "body": body,
    }


def score_row(row: int, record: Record) -> Row | None:
    """Return the row of `scores`, or None."""
    found = score(record)
    if found is None:
        return None
    low, high = (found.low, found.high) if isinstance(found, MeasuredScore) else (None, None)
    return {
        "record": row,
        "kind": found.kind,
        "value": found.value,
        "low": low,
        "high": high,
        "cases": found.cases,
        "basis": found.basis,
    }
