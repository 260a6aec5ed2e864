"""What a second evaluation says of a first: verdicts, and times where the hardware is the same. Evaluates nothing."""

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
    """Whether two evaluations say the same; one without a verdict says nothing."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NO_VERDICT = "no verdict"


class TimeRatios(Model):
    """Times of the same cases, now over then: above 1 it is slower now. Both measured, or both modelled."""

    kind: str
    ratio: float  # the geometric mean over the cases
    cases: int


class Agreement(Model):
    """One kernel that was evaluated again. A kernel without a record is published as one that passes.

    What could not be evaluated again has no record, and notes say why.
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


def agreement(where: str, before: Record | None, after: Record, within: float) -> Agreement:
    """The answer of a second evaluation; times may differ by the share `within`."""
    published = Verdict.PASS if before is None else before.concluded
    times = None if before is None else same_times(before, after)
    candidate: Candidate = after.candidate
    return Agreement(
        where=where,
        task=candidate.task,
        direction=candidate.direction,
        candidate=candidate.id,
        before=published,
        after=after.concluded,
        answer=_answer(published, after.concluded, times, within),
        times=times,
        notes=_notes(before, after, times),
        record=after,
    )


def unanswered(where: str, before: Record | None, why: str) -> Agreement:
    """What is said of a line that is no record, or of one that cannot be evaluated here."""
    nothing = Agreement(where=where, answer=AgreementAnswer.NO_VERDICT, notes=(why,))
    if before is None:
        return nothing
    kernel = before.candidate
    update = {"task": kernel.task, "direction": kernel.direction, "candidate": kernel.id, "before": before.concluded}
    return nothing.model_copy(update=update)


def same_times(before: Record, after: Record) -> TimeRatios | None:
    """The ratio of times of one kind on one hardware over the cases that both have; None where nothing compares."""
    if before.environment.hardware != after.environment.hardware or before.task_version != after.task_version:
        return None
    then = {case.case.name: case for case in _timed(before)}
    pairs = [(then[case.case.name], case) for case in _timed(after) if case.case.name in then]
    alike = [(old, new) for old, new in pairs if _kind(old) == _kind(new) and old.case.axes == new.case.axes]
    ratios = [new.time.us / old.time.us for old, new in alike if 0 < old.time.us < inf and 0 < new.time.us < inf]
    ratios = [ratio for ratio in ratios if 0 < ratio < inf]  # of what others publish: 1e-300 over 1e300 is 0
    if not ratios:
        return None
    return TimeRatios(kind=alike[0][1].time.kind, ratio=geomean(ratios), cases=len(ratios))


def _timed(record: Record) -> Sequence[CaseTiming]:
    """Held-out shapes are drawn anew for every record, so their times are of other work."""
    return record.timing.seen if record.timing else ()


def _kind(case: CaseTiming) -> tuple[str, str]:
    """Measured, or modelled on one GPU: never one with the other."""
    return case.time.kind, case.time.gpu if isinstance(case.time, ModelledTime) else ""


def _answer(before: Verdict, after: Verdict, times: TimeRatios | None, within: float) -> AgreementAnswer:
    if before not in SETTLED or after not in SETTLED:
        return AgreementAnswer.NO_VERDICT
    if before is not after:
        return AgreementAnswer.DISAGREES
    far = times is not None and not 1 / (1 + within) <= times.ratio <= 1 + within
    return AgreementAnswer.DISAGREES if far else AgreementAnswer.AGREES


def _notes(before: Record | None, after: Record, times: TimeRatios | None) -> tuple[str, ...]:
    """Why less was compared than could have been."""
    if before is None:
        return ("published without a record: it should pass",)
    notes = []
    if before.task_version != after.task_version:
        notes.append("the task has changed since")
    if before.environment.hardware != after.environment.hardware:
        notes.append(f"then on {before.environment.hardware}, now on {after.environment.hardware}: times not compared")
    elif times is None and _timed(before):
        notes.append("no case was timed both times")
    stopped = after.ended
    if stopped is not None and after.concluded is not before.concluded:
        reason = f" ({stopped.reason})" if stopped.reason else ""
        notes.append(f"now {stopped.stage} says {stopped.verdict}{reason}: {stopped.detail}")
    return tuple(notes)
