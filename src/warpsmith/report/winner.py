"""The best kernel of a run: the headline with its interval, the times a case, the generalization gap, its text."""

import shlex
from collections.abc import Iterator, Sequence

from warpsmith.archive import ArchivedEvaluation
from warpsmith.base import pluralize
from warpsmith.evaluation.profile import profile_digest
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
    unproven,
)
from warpsmith.report.page import BestKernel, CaseRow, CheckRow, Gap, Headline, Kind
from warpsmith.report.words import lines_of, mean_of, micro, percent, shape_words, speedup
from warpsmith.tasks.inputs import NEAR

CLAIMS = {
    SpeedComparison.FASTER: "faster than",
    SpeedComparison.SLOWER: "slower than",
    SpeedComparison.INCONCLUSIVE: "neither surely faster nor slower than",
}


def headline(entry: ArchivedEvaluation | None, gain: float | None) -> Headline:
    """What was found, held against what, how surely. Nothing right is a headline too."""
    score = entry.score if entry else None
    if entry is None or score is None:
        return Headline(kind="none", sentence="No kernel was right and timed.")
    if isinstance(score, ModelledScore):
        return _modelled(entry, score, gain)
    return _measured(entry, score, gain)


def _modelled(entry: ArchivedEvaluation, score: ModelledScore, gain: float | None) -> Headline:
    than = f", {speedup(gain)} the speed of the kernel it began with" if gain else ""
    text = (
        f"{micro(score.us)} modelled (never measured) for {entry.task} {entry.direction}, the geometric mean over "
        f"{pluralize(score.cases, 'case')}{than}. Modelled times rank kernels; they claim no speedup over torch."
        f"{_doubt(entry.record)}"
    )
    return Headline(kind="modelled", sentence=text, value=score.us, against="", gain=gain)


def _measured(entry: ArchivedEvaluation, score: MeasuredScore, gain: float | None) -> Headline:
    cases = entry.record.timing.seen if entry.record.timing else ()
    against = _against(cases)
    level = max((one.speedup.level for one in cases if one.speedup), default=None)
    than = f"; {speedup(gain)} the speed of the kernel it began with" if gain else ""
    sure = f"{level:.1%} interval a case" if level else "interval"
    claim = CLAIMS[SpeedComparison.of(score.low, score.high)]
    text = (
        f"{score.value:.3f}× ({score.low:.3f}–{score.high:.3f}, {sure}): {claim} {against} "
        f"for {entry.task} {entry.direction} on {entry.record.environment.device} over "
        f"{pluralize(score.cases, 'case')}{than}.{_doubt(entry.record)}"
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
    """The modes that were the best of a case; and those that nobody measured, since one of them may be faster."""
    best = ", ".join(sorted({one.best for one in cases if one.best})) or "not said which"
    missing = [mode for mode in MODES if any(mode not in one.baselines for one in cases)]
    if not missing:
        return f"torch's best mode ({best})"
    return f"the best of torch's modes that were measured ({best}; without {', '.join(missing)})"


def _doubt(record: Record) -> str:
    if record.timing and record.timing.tier == "search":
        return " Measured as a search does, against baselines that may be of another hour; --claim settles it."
    why = unproven(record)
    return f" Unproven: {why}." if why else ""


def _timings(record: Record) -> Sequence[CaseTiming]:
    """The timed cases of a record."""
    return record.timing.cases if record.timing else ()


def case_rows(record: Record) -> tuple[CaseRow, ...]:
    """Every case that was timed."""
    errors = _errors(record)
    return tuple(_case(one, errors.get(one.case.name)) for one in _timings(record))


def _case(one: CaseTiming, error: float | None) -> CaseRow:
    measured = one.time if isinstance(one.time, MeasuredTime) else None
    kind: Kind = "measured" if measured else "modelled"
    return CaseRow(
        name=one.case.name,
        group=one.case.group.value,
        shape=shape_words(one.case),
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


def _errors(record: Record) -> dict[str, float]:
    return {one.case.name: one.worst for one in _checked(record) if one.worst is not None}


def _checked(record: Record) -> Sequence[CaseCheck]:
    """The checked cases of a record."""
    return record.checked.cases if record.checked else ()


def check_rows(record: Record) -> tuple[CheckRow, ...]:
    """What was checked, by purpose."""
    cases = _checked(record)
    groups = dict.fromkeys(one.case.group for one in cases)
    return tuple(_checks(group.value, [one for one in cases if one.case.group is group]) for group in groups)


def _checks(group: str, cases: Sequence[CaseCheck]) -> CheckRow:
    worst = max((one.worst for one in cases if one.worst is not None), default=None)
    return CheckRow(group=group, cases=len(cases), calls=sum(one.calls for one in cases), worst=worst)


def gap_of(record: Record) -> Gap:
    """Seen against held-out: by speedup where it was measured, else by the share of the roofline."""
    secret = sum(one.case.group is Group.HELDOUT for one in _checked(record))
    unit, seen, heldout = _sides(_timings(record))
    gap = Gap(unit=unit, seen=seen, heldout=heldout, checked=secret)
    return gap.model_copy(update={"sentence": _gap_text(gap)})


def _sides(every: Sequence[CaseTiming]) -> tuple[str, float | None, float | None]:
    """Held-out shapes are new each time and meet fewer modes of torch: both sides by the modes that all have."""
    cases = _alike(every)
    shared = [mode for mode in MODES if cases and all(mode in one.baselines for one in cases)]
    fast = [
        (one.case.group is Group.HELDOUT, min(one.baselines[mode].us for mode in shared) / one.time.us)
        for one in cases
        if shared and isinstance(one.time, MeasuredTime)
    ]
    limits = [(one.case.group is Group.HELDOUT, one.roofline) for one in cases if one.roofline]
    unit, values = ("speedup", fast) if fast else ("share of the roofline", limits)
    return unit, mean_of(v for secret, v in values if not secret), mean_of(v for secret, v in values if secret)


def _alike(every: Sequence[CaseTiming]) -> Sequence[CaseTiming]:
    """Where held-out shapes are like a timing case but for their sizes, those and the cases that they are like.

    Of a few numbers many a kernel is many times faster, and that is no gap in generalization.
    """
    near = [one for one in every if one.case.group is Group.HELDOUT and one.case.name.startswith(NEAR)]
    like = {one.case.name.removeprefix(NEAR) for one in near}
    pairs = [one for one in every if one.case.name in like and one.case.group is not Group.HELDOUT]
    return [*pairs, *near] if near else every


def _gap_text(gap: Gap) -> str:
    right = f"Results were right on {pluralize(gap.checked, 'held-out case')}, drawn at grading from a secret seed."
    if not gap.checked:
        right = "No held-out case was checked."
    if gap.seen is None or gap.heldout is None or gap.ratio is None:
        return f"{right} Held-out shapes were not timed, so the gap in speed is not known."
    show = speedup if gap.unit == "speedup" else percent
    return (
        f"{right} Geometric mean of the {gap.unit}: {show(gap.seen)} on cases that the search saw, "
        f"{show(gap.heldout)} on shapes that it did not; held-out over seen {gap.ratio:.2f}."
    )


def best_kernel(entry: ArchivedEvaluation, run: Run, profile: ProfileFacts | None) -> BestKernel:
    """The winner's text with the profile's lines, and the commands that grade it again."""
    record, why = entry.record, unproven(entry.record)
    source = mark_source(record.candidate.source, why)
    return BestKernel(
        candidate=entry.candidate,
        language=record.candidate.language,
        macros=record.candidate.macros,
        source=source,
        hot=tuple(_hot(profile, record.candidate.source, 1 if why else 0)) if profile else (),
        profile=profile_digest(profile) if profile else "",
        commands=regrading(run, record),
        record=record,
    )


def regrading(run: Run, record: Record) -> tuple[str, ...]:
    """From the record that the page carries; or from the archive, as a file of its own."""
    file = f"{run.name}.cu"
    again = ["warpsmith", "regrade", f"{run.name}.record.json", "--device", run.device]
    best = ["warpsmith", "best", run.name, "--out", file]
    if why := unproven(record):
        file = f"{mark_name(run.name, why)}.cu"
        best.append("--unproven")
    return shlex.join(again), shlex.join(best), run.eval_command(record, file)


def _hot(profile: ProfileFacts, source: str, shift: int) -> Iterator[HotLine]:
    """The profile's lines that are lines of this text, which is shown below a few more; those of a header are not."""
    lines = lines_of(source)
    for hot in (line for kernel in profile.kernels for line in kernel.lines):
        if 0 < hot.place.line <= len(lines) and hot.code.strip() in lines[hot.place.line - 1]:
            place = hot.place.model_copy(update={"line": hot.place.line + shift})
            yield hot.model_copy(update={"place": place})
