"""The page of a run, read from the archive: counts, charts, and notes on omitted parts."""

from collections.abc import Sequence
from datetime import UTC, datetime

import warpsmith
from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.records import HELPED, HURT, LESSON, Lesson, MeasuredScore, ProfileFacts, Run, Score
from warpsmith.report.page import Kind, Point, ReportPage, RunPage, ScoreHistory
from warpsmith.report.scan import (
    STOPPED,
    EvaluationSummary,
    RunScan,
    candidate_ids,
    count_outcomes,
    count_unevaluated,
    scan_run,
)
from warpsmith.report.tree import MOST_NODES, build_lineage
from warpsmith.report.winner import best_kernel, case_rows, check_rows, generalization_gap, write_headline
from warpsmith.report.words import SHORT

MOST_POINTS = 1500
MOST_HELPED, MOST_HURT, MOST_FAULTS = 6, 2, 4  # lessons
PROFILE = "profile"  # the note that keeps the profile of a candidate, by its id


def build_report(archive: Archive, names: Sequence[str]) -> ReportPage:
    """Build the page of the named runs. Raise UsageError for an unknown run."""
    runs = tuple(build_run_page(archive, archive.run(name)) for name in names)
    return ReportPage(made=datetime.now(UTC), package=warpsmith.__version__, runs=runs)


def build_run_page(archive: Archive, run: Run) -> RunPage:
    """Build the page of one run."""
    # One pass over the records: a run may have ten thousand.
    scan, best, never = scan_run(archive, run.name), archive.best(run.name), count_unevaluated(archive, run.name)
    basis = most_common_basis(archive, run.name)
    points = collect_points(scan.evaluations, basis)
    nodes = build_lineage(archive, run.name, scan.evaluations, best.candidate if best else "", basis)
    profile = find_profile(archive, best) if best else None
    calls = archive.spent(run.name)
    shown = _thin(points)
    return RunPage(
        run=run,
        evaluations=len(scan.evaluations),
        usd=sum(call.usd for call in calls),
        headline=write_headline(best, _search_gain(points)),
        progress=_progress(shown, len(points), scan.evaluations, basis),
        funnel=count_outcomes(archive, run.name, never),
        stages=scan.rows(),
        verifiers=scan.verifiers(never.get(STOPPED, 0)),
        cases=case_rows(best.record) if best else (),
        checks=check_rows(best.record) if best else (),
        gap=generalization_gap(best.record) if best else None,
        profile=profile,
        lineage=nodes,
        calls=calls,
        lessons=select_lessons(archive, run.name),
        best=best_kernel(best, run, profile) if best else None,
        left_out=tuple(_describe_omissions(scan, len(nodes), len(points) - len(shown))),
    )


def most_common_basis(archive: Archive, run: str) -> str:
    """Return the ranking with most evaluations: the search's own, not that of the final evaluation."""
    rankings = archive.rankings(run)
    # The final evaluation has a basis of its own with few scores.
    return max(rankings, key=lambda one: one.count).basis if rankings else ""


def collect_points(evaluations: Sequence[EvaluationSummary], basis: str) -> list[Point]:
    """Return the scores of one ranking in order; a modelled score as its time in µs."""
    points: list[Point] = []
    top = 0.0
    for evaluation in evaluations:
        # Scores of another basis have another unit or other cases.
        if evaluation.score is None or evaluation.score.basis != basis:
            continue
        # The comparison uses scores, where more is better; the plotted value of a modelled score is a time.
        better, top = evaluation.score.value > top, max(top, evaluation.score.value)
        points.append(
            Point(
                evaluation=evaluation.number,
                usd=evaluation.usd,
                value=_plotted_value(evaluation.score),
                kernel=evaluation.candidate[:SHORT],
                operator=evaluation.operator,
                better=better,
            )
        )
    return points


def find_profile(archive: Archive, best: ArchivedEvaluation) -> ProfileFacts | None:
    """Return the best kernel's profile from its record, or from a `report --profile` note."""
    result = best.record.result(PROFILE)
    if result is not None and isinstance(result.facts, ProfileFacts):
        return result.facts
    # The latest profile of the best kernel.
    kept = [note for note in archive.notes(best.run, PROFILE) if note.name == best.candidate]
    return ProfileFacts.model_validate(kept[-1].body) if kept else None


def select_lessons(archive: Archive, run: str) -> tuple[Lesson, ...]:
    """Return the lessons that helped most, that hurt most, and the last of each fault."""
    notes = [note for note in archive.notes(None, LESSON) if note.name.startswith(f"{run}:")]
    found = [Lesson.model_validate(note.body) for note in notes]
    timed = sorted((one for one in found if one.gain), key=lambda one: -(one.gain or 0.0))
    helped = [one for one in timed if (one.gain or 0.0) >= HELPED][:MOST_HELPED]
    hurt = [one for one in timed if (one.gain or 0.0) <= HURT][-MOST_HURT:]
    # One example for each reason: the last one overwrites the earlier ones.
    failed = {one.fault.partition(":")[0]: one for one in found if one.fault}
    return (*helped, *hurt, *list(failed.values())[:MOST_FAULTS])


def _progress(
    points: Sequence[Point], scored: int, evaluations: Sequence[EvaluationSummary], basis: str
) -> ScoreHistory:
    score = next((one.score for one in evaluations if one.score and one.score.basis == basis), None)
    if score is None:
        return ScoreHistory()
    kind: Kind = score.kind
    unit = "speedup over torch's best mode" if kind == "measured" else "modelled µs"
    return ScoreHistory(kind=kind, unit=unit, scored=scored, points=tuple(points))


def _thin(points: Sequence[Point]) -> list[Point]:
    """Keep improvements, the last and every n-th point."""
    # Ceiling division, so that at most MOST_POINTS other points stay.
    step = -(-len(points) // MOST_POINTS)
    last = len(points) - 1
    return [one for place, one in enumerate(points) if one.better or place == last or place % step == 0]


def _search_gain(points: Sequence[Point]) -> float | None:
    """Return the ratio between the best and the first score; None with fewer than two."""
    bests = [point.value for point in points if point.better]
    if len(bests) < 2:
        return None
    # Times fall and speedups rise; the larger value over the smaller one is the gain for both.
    return max(bests[0], bests[-1]) / min(bests[0], bests[-1])


def _plotted_value(score: Score) -> float:
    return score.value if isinstance(score, MeasuredScore) else score.us


def _describe_omissions(scan: RunScan, nodes: int, points: int) -> list[str]:
    """Return sentences about evaluations and kernels that are not drawn."""
    kernels = len(candidate_ids(scan.evaluations))
    said = []
    if points:
        said.append(f"{points} of the scored evaluations are not drawn; everything that was better than before is.")
    if kernels > nodes:
        said.append(
            f"{kernels - nodes} of {kernels} kernels are not in the lineage tree, which holds at most {MOST_NODES}: "
            "the best with its ancestors, then the next best with theirs."
        )
    return said
