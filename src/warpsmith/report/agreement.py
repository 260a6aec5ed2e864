"""Comparison of two evaluations of one kernel."""

from collections.abc import Sequence
from enum import StrEnum
from math import inf

from warpsmith.base import geomean
from warpsmith.records import (
    Candidate,
    CaseTiming,
    Direction,
    Model,
    ModelledTime,
    Record,
    Verdict,
)

SETTLED = (Verdict.PASS, Verdict.FAIL)


class AgreementAnswer(StrEnum):
    """Whether two evaluations agree; without a verdict, neither yes nor no."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NO_VERDICT = "no verdict"


class TimeRatios(Model):
    """The geometric mean of new time over old time; above 1, the kernel is slower now."""

    kind: str
    ratio: float  # the geometric mean over the cases
    cases: int


class Agreement(Model):
    """One kernel that was evaluated again.

    A kernel without a published record counts as published with a pass. If the second evaluation was not possible,
    `record` is None and `notes` say why.
    """

    where: str  # the file, with the line where there are several
    task: str = ""
    direction: Direction | None = None
    candidate: str = ""
    before: Verdict = Verdict.SKIP
    after: Verdict = Verdict.SKIP
    answer: AgreementAnswer
    times: TimeRatios | None = None
    notes: tuple[str, ...] = ()
    record: Record | None = None


def compare_records(where: str, before: Record | None, after: Record, within: float) -> Agreement:
    """Compare a second evaluation with the first; `within` is the tolerated share between times."""
    # A kernel is published as right, so without a record it counts as passed.
    published = Verdict.PASS if before is None else before.concluded
    times = None if before is None else time_ratios(before, after)
    # Both records are of one kernel; the new one names it as this machine does.
    candidate: Candidate = after.candidate
    return Agreement(
        where=where,
        task=candidate.task,
        direction=candidate.direction,
        candidate=candidate.id,
        before=published,
        after=after.concluded,
        answer=_decide(published, after.concluded, times, within),
        times=times,
        notes=_notes(before, after, times),
        record=after,
    )


def without_verdict(where: str, before: Record | None, why: str) -> Agreement:
    """Return the answer for a line that is no record or cannot be evaluated here."""
    nothing = Agreement(where=where, answer=AgreementAnswer.NO_VERDICT, notes=(why,))
    if before is None:
        return nothing
    kernel = before.candidate
    update = {"task": kernel.task, "direction": kernel.direction, "candidate": kernel.id, "before": before.concluded}
    return nothing.model_copy(update=update)


def time_ratios(before: Record, after: Record) -> TimeRatios | None:
    """Return the ratio of times over the cases of both records; None if nothing is comparable."""
    # Times of other hardware or of another task version have no common meaning.
    if before.environment.hardware != after.environment.hardware or before.task_version != after.task_version:
        return None
    then = {case.case.name: case for case in _timed_cases(before)}
    pairs = [(then[case.case.name], case) for case in _timed_cases(after) if case.case.name in then]
    # The same name with other sizes is another case.
    alike = [(old, new) for old, new in pairs if _kind(old) == _kind(new) and old.case.axes == new.case.axes]
    ratios = [new.time.us / old.time.us for old, new in alike if 0 < old.time.us < inf and 0 < new.time.us < inf]
    ratios = [ratio for ratio in ratios if 0 < ratio < inf]  # of what others publish: 1e-300 over 1e300 is 0
    if not ratios:
        return None
    return TimeRatios(kind=alike[0][1].time.kind, ratio=geomean(ratios), cases=len(ratios))


def _timed_cases(record: Record) -> Sequence[CaseTiming]:
    """Return the timed cases without held-out ones, whose shapes differ in every record."""
    return record.timing.seen if record.timing else ()


def _kind(case: CaseTiming) -> tuple[str, str]:
    """Return whether a time is measured, or on which GPU it is modelled."""
    return case.time.kind, case.time.gpu if isinstance(case.time, ModelledTime) else ""


def _decide(before: Verdict, after: Verdict, times: TimeRatios | None, within: float) -> AgreementAnswer:
    """Compare two verdicts, then the times."""
    # A quarantine, a skip or a fault says nothing about the kernel.
    if before not in SETTLED or after not in SETTLED:
        return AgreementAnswer.NO_VERDICT
    if before is not after:
        return AgreementAnswer.DISAGREES
    # The reciprocal bound, so that twice as fast and twice as slow are equally far.
    far = times is not None and not 1 / (1 + within) <= times.ratio <= 1 + within
    return AgreementAnswer.DISAGREES if far else AgreementAnswer.AGREES


def _notes(before: Record | None, after: Record, times: TimeRatios | None) -> tuple[str, ...]:
    """Return the reasons why less was compared than two records allow."""
    if before is None:
        return ("published without a record: it should pass",)
    notes = []
    if before.task_version != after.task_version:
        notes.append("the task has changed since")
    if before.environment.hardware != after.environment.hardware:
        notes.append(f"then on {before.environment.hardware}, now on {after.environment.hardware}: times not compared")
    elif times is None and _timed_cases(before):
        notes.append("no case was timed both times")
    stopped = after.ended
    if stopped is not None and after.concluded is not before.concluded:
        reason = f" ({stopped.reason})" if stopped.reason else ""
        notes.append(f"now {stopped.stage} says {stopped.verdict}{reason}: {stopped.detail}")
    return tuple(notes)
