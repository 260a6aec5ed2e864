"""The best kernel of a run: headline, times by case, generalization gap, text."""

import shlex
from collections.abc import Iterator, Sequence

from warpsmith.archive import ArchivedEvaluation
from warpsmith.base import pluralize
from warpsmith.evaluation.profile import profile_digest
from warpsmith.languages import find_language
from warpsmith.records import (
    MODES,
    CaseCheck,
    CaseTiming,
    Group,
    HotLine,
    MeasuredScore,
    MeasuredTime,
    ModelledScore,
    ProfileFacts,
    Record,
    Run,
    SpeedComparison,
    mark_name,
    mark_source,
    unproven_reason,
)
from warpsmith.report.page import BestKernel, CaseRow, CheckRow, Gap, Headline, Kind
from warpsmith.report.words import describe_shape, format_percent, format_speedup, format_us, lines_of, positive_geomean
from warpsmith.tasks.inputs import NEAR

CLAIMS = {
    SpeedComparison.FASTER: "faster than",
    SpeedComparison.SLOWER: "slower than",
    SpeedComparison.INCONCLUSIVE: "neither surely faster nor slower than",
}


def write_headline(entry: ArchivedEvaluation | None, gain: float | None) -> Headline:
    """Write the result, its baseline and its interval; say so if no kernel was right."""
    score = entry.score if entry else None
    if entry is None or score is None:
        return Headline(kind="none", sentence="No kernel was right and timed.")
    if isinstance(score, ModelledScore):
        return _modelled_headline(entry, score, gain)
    return _measured_headline(entry, score, gain)


def _modelled_headline(entry: ArchivedEvaluation, score: ModelledScore, gain: float | None) -> Headline:
    than = f", {format_speedup(gain)} the speed of the kernel it began with" if gain else ""
    text = (
        f"{format_us(score.us)} modelled (never measured) for {entry.task} {entry.direction}, the geometric mean over "
        f"{pluralize(score.cases, 'case')}{than}. Modelled times rank kernels; they claim no speedup over torch."
        f"{_reservation(entry.record)}"
    )
    return Headline(kind="modelled", sentence=text, value=score.us, against="", gain=gain)


def _measured_headline(entry: ArchivedEvaluation, score: MeasuredScore, gain: float | None) -> Headline:
    cases = entry.record.timing.seen if entry.record.timing else ()
    against = _against(cases)
    level = max((one.speedup.level for one in cases if one.speedup), default=None)
    than = f"; {format_speedup(gain)} the speed of the kernel it began with" if gain else ""
    # The level holds for each case; the interval of the mean holds with less (records/score.py).
    sure = f"{level:.1%} interval a case" if level else "interval"
    claim = CLAIMS[SpeedComparison.of(score.low, score.high)]
    text = (
        f"{score.value:.3f}× ({score.low:.3f}–{score.high:.3f}, {sure}): {claim} {against} "
        f"for {entry.task} {entry.direction} on {entry.record.environment.device} over "
        f"{pluralize(score.cases, 'case')}{than}.{_reservation(entry.record)}"
    )
    return Headline(
        kind="measured",
        sentence=text,
        value=score.value,
        low=score.low,
        high=score.high,
        level=level,
        against=against,
        gain=gain,
    )


def _against(cases: Sequence[CaseTiming]) -> str:
    """Return the modes that were best in some case, and those that were not measured."""
    # Several modes may be best, each in other cases.
    best = ", ".join(sorted({one.best for one in cases if one.best})) or "not said which"
    missing = [mode for mode in MODES if any(mode not in one.baselines for one in cases)]
    if not missing:
        return f"torch's best mode ({best})"
    return f"the best of torch's modes that were measured ({best}; without {', '.join(missing)})"


def _reservation(record: Record) -> str:
    if record.timing and record.timing.tier == "search":
        # Baselines of another session may have been measured at another clock.
        return " Measured as a search does, against baselines that may be of another hour; --claim settles it."
    why = unproven_reason(record)
    return f" Unproven: {why}." if why else ""


def _timed_cases(record: Record) -> Sequence[CaseTiming]:
    """Return the timed cases of a record."""
    return record.timing.cases if record.timing else ()


def case_rows(record: Record) -> tuple[CaseRow, ...]:
    """Return a row for every timed case."""
    errors = _worst_errors(record)
    return tuple(_case(one, errors.get(one.case.name)) for one in _timed_cases(record))


def _case(one: CaseTiming, error: float | None) -> CaseRow:
    measured = one.time if isinstance(one.time, MeasuredTime) else None
    kind: Kind = "measured" if measured else "modelled"
    return CaseRow(
        name=one.case.name,
        group=one.case.group.value,
        shape=describe_shape(one.case),
        dtype=one.case.dtype.value,
        kind=kind,
        us=one.time.us,
        low_us=measured.low_us if measured else None,
        high_us=measured.high_us if measured else None,
        call_us=one.call.us if one.call else None,
        baselines={name: time.us for name, time in one.baselines.items()},
        best=one.best,
        speedup=one.speedup,
        claim=one.claim,
        floor_us=one.floor_us,
        roofline=one.roofline,
        error=error,
        notes=one.notes,
    )


def _worst_errors(record: Record) -> dict[str, float]:
    return {one.case.name: one.worst for one in _checked(record) if one.worst is not None}


def _checked(record: Record) -> Sequence[CaseCheck]:
    """Return the checked cases of a record."""
    return record.checked.cases if record.checked else ()


def check_rows(record: Record) -> tuple[CheckRow, ...]:
    """Return a row per group of checked cases."""
    cases = _checked(record)
    groups = dict.fromkeys(one.case.group for one in cases)
    return tuple(_check_row(group.value, [one for one in cases if one.case.group is group]) for group in groups)


def _check_row(group: str, cases: Sequence[CaseCheck]) -> CheckRow:
    worst = max((one.worst for one in cases if one.worst is not None), default=None)
    return CheckRow(group=group, cases=len(cases), calls=sum(one.calls for one in cases), worst=worst)


def generalization_gap(record: Record) -> Gap:
    """Compare seen with held-out cases by measured speedup, or else by share of the roofline."""
    secret = sum(one.case.group is Group.HELDOUT for one in _checked(record))
    unit, seen, heldout = _means_by_group(_timed_cases(record))
    gap = Gap(unit=unit, seen=seen, heldout=heldout, checked=secret)
    return gap.model_copy(update={"sentence": _describe_gap(gap)})


def _means_by_group(every: Sequence[CaseTiming]) -> tuple[str, float | None, float | None]:
    """Return the unit and the means of seen and held-out cases.

    Held-out shapes are measured against fewer modes of torch, so both means use the modes that all cases have.
    """
    cases = _comparable_cases(every)
    # Equal modes on both sides: the best of five modes and the best of two would not be comparable.
    shared = [mode for mode in MODES if cases and all(mode in one.baselines for one in cases)]
    fast = [
        (one.case.group is Group.HELDOUT, min(one.baselines[mode].us for mode in shared) / one.time.us)
        for one in cases
        if shared and isinstance(one.time, MeasuredTime)
    ]
    limits = [(one.case.group is Group.HELDOUT, one.roofline) for one in cases if one.roofline]
    unit, values = ("speedup", fast) if fast else ("share of the roofline", limits)
    return (
        unit,
        positive_geomean(v for secret, v in values if not secret),
        positive_geomean(v for secret, v in values if secret),
    )


def _comparable_cases(every: Sequence[CaseTiming]) -> Sequence[CaseTiming]:
    """Return the held-out cases near a timing case with those timing cases; all cases if there are none near.

    Tiny shapes can be many times faster than torch, which says nothing about generalization.
    """
    near = [one for one in every if one.case.group is Group.HELDOUT and one.case.name.startswith(NEAR)]
    like = {one.case.name.removeprefix(NEAR) for one in near}
    pairs = [one for one in every if one.case.name in like and one.case.group is not Group.HELDOUT]
    return [*pairs, *near] if near else every


def _describe_gap(gap: Gap) -> str:
    right = f"Results were right on {pluralize(gap.checked, 'held-out case')}, drawn at grading from a secret seed."
    if not gap.checked:
        right = "No held-out case was checked."
    if gap.seen is None or gap.heldout is None or gap.ratio is None:
        return f"{right} Held-out shapes were not timed, so the gap in speed is not known."
    show = format_speedup if gap.unit == "speedup" else format_percent
    return (
        f"{right} Geometric mean of the {gap.unit}: {show(gap.seen)} on cases that the search saw, "
        f"{show(gap.heldout)} on shapes that it did not; held-out over seen {gap.ratio:.2f}."
    )


def best_kernel(entry: ArchivedEvaluation, run: Run, profile: ProfileFacts | None) -> BestKernel:
    """Return the best kernel's text with profiled lines, and commands that evaluate it again."""
    record, why = entry.record, unproven_reason(entry.record)
    source = mark_source(record.candidate.source, why)
    return BestKernel(
        candidate=entry.candidate,
        language=record.candidate.language,
        macros=record.candidate.macros,
        source=source,
        hot=tuple(_hot_lines(profile, record.candidate.source, 1 if why else 0)) if profile else (),
        profile=profile_digest(profile) if profile else "",
        commands=regrade_commands(run, record),
        record=record,
    )


def regrade_commands(run: Run, record: Record) -> tuple[str, ...]:
    """Return the commands that evaluate a kernel again, from the page's record or from the archive."""
    suffix = find_language(record.candidate.language).suffix
    file = f"{run.name}{suffix}"
    again = ["warpsmith", "regrade", f"{run.name}.record.json", "--device", run.device]
    best = ["warpsmith", "best", run.name, "--out", file]
    if why := unproven_reason(record):
        file = f"{mark_name(run.name, why)}{suffix}"
        best.append("--unproven")
    return shlex.join(again), shlex.join(best), run.eval_command(record, file)


def _hot_lines(profile: ProfileFacts, source: str, shift: int) -> Iterator[HotLine]:
    """Yield profiled lines of this text, shifted by an added first line; lines of headers are left out."""
    lines = lines_of(source)
    for hot in (line for kernel in profile.kernels for line in kernel.lines):
        # A line is taken only if its code matches, since a header may have the same line number.
        if 0 < hot.place.line <= len(lines) and hot.code.strip() in lines[hot.place.line - 1]:
            place = hot.place.model_copy(update={"line": hot.place.line + shift})
            yield hot.model_copy(update={"place": place})
