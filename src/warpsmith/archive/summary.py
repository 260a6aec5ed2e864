"""A run in a line and in a page: its best kernel and where that came from, how evaluations ended, what it cost."""

from collections.abc import Mapping

from warpsmith.archive.archive import Archive
from warpsmith.archive.entry import ArchivedEvaluation, OutcomeCount
from warpsmith.records import Model, ModelCall, Run, Score


class Kernel(Model):
    """One evaluated kernel, without its text."""

    entry: str
    candidate: str
    generation: int
    operator: str
    model: str
    origin: str
    macros: Mapping[str, str]
    parents: tuple[str, ...]
    score: Score | None

    @classmethod
    def of(cls, entry: ArchivedEvaluation) -> "Kernel":
        """The kernel of an entry."""
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
        )


class Standing(Model):
    """A run in a line."""

    run: Run
    evaluations: int
    best: Kernel | None
    usd: float  # what the models cost
    stands: str = ""  # how it is now, where somebody has looked: a run that says running may have been killed


class Summary(Standing):
    """A run in a page."""

    outcomes: tuple[OutcomeCount, ...]
    lineage: tuple[Kernel, ...]  # from the oldest to the best, by the first parent of each
    calls: tuple[ModelCall, ...]


def standing(archive: Archive, run: Run) -> Standing:
    """How a run stands now."""
    best = archive.best(run.name)
    return Standing(
        run=run,
        evaluations=archive.count(run.name),
        best=Kernel.of(best) if best else None,
        usd=sum(call.usd for call in archive.spent(run.name)),
    )


def summarize(archive: Archive, name: str) -> Summary:
    """The summary of a run; one that does not exist is a UsageError."""
    stands, best = standing(archive, archive.run(name)), archive.best(name)
    return Summary(
        run=stands.run,
        evaluations=stands.evaluations,
        best=stands.best,
        usd=stands.usd,
        outcomes=archive.outcomes(name),
        lineage=tuple(Kernel.of(entry) for entry in _line(archive, best)) if best else (),
        calls=archive.spent(name),
    )


def _line(archive: Archive, best: ArchivedEvaluation) -> list[ArchivedEvaluation]:
    """The best and its first parents, the oldest first."""
    known = {entry.candidate: entry for entry in archive.lineage(best.candidate, best.run)}
    known[best.candidate] = best
    line, seen = [best], {best.candidate}
    while line[-1].parents and (parent := line[-1].parents[0]) in known and parent not in seen:
        line.append(known[parent])
        seen.add(parent)
    return line[::-1]
