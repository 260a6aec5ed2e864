"""A run of the archive as a page: reads, counts, chooses what is shown and says what was left out."""

from collections.abc import Sequence
from datetime import UTC, datetime

import warpsmith
from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.records import HELPED, HURT, LESSON, Lesson, MeasuredScore, ProfileFacts, Run, Score
from warpsmith.report.page import Calibrated, Kind, Point, ReportPage, RunPage, ScoreHistory
from warpsmith.report.scan import STOPPED, Scan, Sight, funnel, ids, never_evaluated, scan_run
from warpsmith.report.tree import MOST_NODES, lineage
from warpsmith.report.winner import best_kernel, case_rows, check_rows, gap_of, headline
from warpsmith.report.words import SHORT

MOST_POINTS = 1500
MOST_HELPED, MOST_HURT, MOST_FAULTS = 6, 2, 4  # lessons
PROFILE = "profile"  # the note that keeps the profile of a candidate, by its id


def report(archive: Archive, names: Sequence[str], calibration: Calibrated | None = None) -> ReportPage:
    """The page of the named runs; one that does not exist is a UsageError."""
    runs = tuple(run_page(archive, archive.run(name)) for name in names)
    return ReportPage(made=datetime.now(UTC), package=warpsmith.__version__, runs=runs, calibration=calibration)


def run_page(archive: Archive, run: Run) -> RunPage:
    """Everything that a report says of one run."""
    scan, best, never = scan_run(archive, run.name), archive.best(run.name), never_evaluated(archive, run.name)
    basis = main_basis(archive, run.name)
    points = points_of(scan.sights, basis)
    nodes = lineage(archive, run.name, scan.sights, best.candidate if best else "", basis)
    profile = profile_of(archive, best) if best else None
    calls = archive.spent(run.name)
    shown = _thinned(points)
    return RunPage(
        run=run,
        evaluations=len(scan.sights),
        usd=sum(call.usd for call in calls),
        headline=headline(best, _gain(points)),
        progress=_progress(shown, len(points), scan.sights, basis),
        funnel=funnel(archive, run.name, never),
        stages=scan.rows(),
        verifiers=scan.verifiers(never.get(STOPPED, 0)),
        cases=case_rows(best.record) if best else (),
        checks=check_rows(best.record) if best else (),
        gap=gap_of(best.record) if best else None,
        profile=profile,
        lineage=nodes,
        calls=calls,
        lessons=lessons_of(archive, run.name),
        best=best_kernel(best, run, profile) if best else None,
        left_out=tuple(_left_out(scan, len(nodes), len(points) - len(shown))),
    )


def main_basis(archive: Archive, run: str) -> str:
    """The ranking that most evaluations are in: the search's own, where the winner was also graded at length."""
    rankings = archive.rankings(run)
    return max(rankings, key=lambda one: one.count).basis if rankings else ""


def points_of(sights: Sequence[Sight], basis: str) -> list[Point]:
    """The scores of one ranking in order; a modelled one as its time, which is better when it is lower."""
    points: list[Point] = []
    top = 0.0
    for sight in sights:
        if sight.score is None or sight.score.basis != basis:
            continue
        better, top = sight.score.value > top, max(top, sight.score.value)
        points.append(
            Point(
                evaluation=sight.number,
                usd=sight.usd,
                value=_shown(sight.score),
                kernel=sight.candidate[:SHORT],
                operator=sight.operator,
                better=better,
            )
        )
    return points


def profile_of(archive: Archive, best: ArchivedEvaluation) -> ProfileFacts | None:
    """The best kernel's profile: of its record, else the one that `warpsmith report --profile` kept."""
    result = best.record.result(PROFILE)
    if result is not None and isinstance(result.facts, ProfileFacts):
        return result.facts
    kept = [note for note in archive.notes(best.run, PROFILE) if note.name == best.candidate]
    return ProfileFacts.model_validate(kept[-1].body) if kept else None


def lessons_of(archive: Archive, run: str) -> tuple[Lesson, ...]:
    """What the run learned: what helped most, what hurt most, and the last of each fault."""
    notes = [note for note in archive.notes(None, LESSON) if note.name.startswith(f"{run}:")]
    found = [Lesson.model_validate(note.body) for note in notes]
    timed = sorted((one for one in found if one.gain), key=lambda one: -(one.gain or 0.0))
    helped = [one for one in timed if (one.gain or 0.0) >= HELPED][:MOST_HELPED]
    hurt = [one for one in timed if (one.gain or 0.0) <= HURT][-MOST_HURT:]
    failed = {one.fault.partition(":")[0]: one for one in found if one.fault}
    return (*helped, *hurt, *list(failed.values())[:MOST_FAULTS])


def _progress(points: Sequence[Point], scored: int, sights: Sequence[Sight], basis: str) -> ScoreHistory:
    score = next((one.score for one in sights if one.score and one.score.basis == basis), None)
    if score is None:
        return ScoreHistory()
    kind: Kind = score.kind
    unit = "speedup over torch's best mode" if kind == "measured" else "modelled µs"
    return ScoreHistory(kind=kind, unit=unit, scored=scored, points=tuple(points))


def _thinned(points: Sequence[Point]) -> list[Point]:
    """All that were better than before, the last one, and every n-th of the others."""
    step = -(-len(points) // MOST_POINTS)
    last = len(points) - 1
    return [one for place, one in enumerate(points) if one.better or place == last or place % step == 0]


def _gain(points: Sequence[Point]) -> float | None:
    """The best over the first, both of the search's own ranking; which way is up does not matter to a ratio of both."""
    bests = [point.value for point in points if point.better]
    if len(bests) < 2:
        return None
    return max(bests[0], bests[-1]) / min(bests[0], bests[-1])


def _shown(score: Score) -> float:
    return score.value if isinstance(score, MeasuredScore) else score.us


def _left_out(scan: Scan, nodes: int, points: int) -> list[str]:
    kernels = len(ids(scan.sights))
    said = []
    if points:
        said.append(f"{points} of the scored evaluations are not drawn; everything that was better than before is.")
    if kernels > nodes:
        said.append(
            f"{kernels - nodes} of {kernels} kernels are not in the lineage tree, which holds at most {MOST_NODES}: "
            "the best with its ancestors, then the next best with theirs."
        )
    return said
