"""Summaries of a run: best kernel, its ancestors, outcomes and cost."""

from collections.abc import Mapping

from warpsmith.archive.archive import Archive
from warpsmith.archive.entry import ArchivedEvaluation, OutcomeCount
from warpsmith.records import Model, ModelCall, Run, Score, unproven_reason


class ArchivedKernel(Model):
    """One evaluated kernel without its text."""

    entry: str
    candidate: str
    generation: int
    operator: str
    model: str
    origin: str
    macros: Mapping[str, str]
    parents: tuple[str, ...]
    score: Score | None
    unproven: str = ""  # why it is no kernel to hand out

    @classmethod
    def of(cls, entry: ArchivedEvaluation) -> "ArchivedKernel":
        """Return the kernel of an entry."""
        candidate = entry.record.candidate
        return cls(
            entry=entry.id,
            candidate=entry.candidate,
            generation=entry.tags.generation,
            operator=entry.tags.operator,
            model=entry.tags.model,
            origin=candidate.origin,
            macros=candidate.macros,
            parents=candidate.parents,
            score=entry.score,
            unproven=unproven_reason(entry.record),
        )


class RunStatus(Model):
    """A run in one line."""

    run: Run
    evaluations: int
    best: ArchivedKernel | None
    usd: float  # what the models cost
    stands: str = ""  # how it is now, where somebody has looked: a run that says running may have been killed


class RunSummary(RunStatus):
    """A run on one page."""

    outcomes: tuple[OutcomeCount, ...]
    lineage: tuple[ArchivedKernel, ...]  # from the oldest to the best, by the first parent of each
    calls: tuple[ModelCall, ...]


def describe_run_line(archive: Archive, run: Run) -> RunStatus:
    """Return the current status of a run."""
    best = archive.best(run.name)
    return RunStatus(
        run=run,
        evaluations=archive.count(run.name),
        best=ArchivedKernel.of(best) if best else None,
        usd=sum(call.usd for call in archive.spent(run.name)),
    )


def summarize(archive: Archive, name: str) -> RunSummary:
    """Return a run's summary. Raise UsageError without one."""
    stands, best = describe_run_line(archive, archive.run(name)), archive.best(name)
    return RunSummary(
        run=stands.run,
        evaluations=stands.evaluations,
        best=stands.best,
        usd=stands.usd,
        outcomes=archive.outcomes(name),
        lineage=tuple(ArchivedKernel.of(entry) for entry in _list_ancestors(archive, best)) if best else (),
        calls=archive.spent(name),
    )


def _list_ancestors(archive: Archive, best: ArchivedEvaluation) -> list[ArchivedEvaluation]:
    """Return the best kernel and its first parents, oldest first."""
    known = {entry.candidate: entry for entry in archive.lineage(best.candidate, best.run)}
    known[best.candidate] = best
    line, seen = [best], {best.candidate}
    # A candidate may be its own ancestor in a damaged archive, so each id enters the line once.
    while line[-1].parents and (parent := line[-1].parents[0]) in known and parent not in seen:
        line.append(known[parent])
        seen.add(parent)
    return line[::-1]
