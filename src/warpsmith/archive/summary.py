"""A run in a page: how its evaluations ended, its best kernel and where that came from, what the models cost."""

from collections.abc import Mapping

from warpsmith.archive.archive import Archive
from warpsmith.archive.entry import Entry, Outcome
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
    def of(cls, entry: Entry) -> "Kernel":
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


class Summary(Model):
    """What can be said of a run now."""

    run: Run
    evaluations: int
    outcomes: tuple[Outcome, ...]
    best: Kernel | None
    lineage: tuple[Kernel, ...]  # from the oldest to the best, by the first parent of each
    calls: tuple[ModelCall, ...]

    @property
    def usd(self) -> float:
        """What the models cost."""
        return sum(call.usd for call in self.calls)


def summarize(archive: Archive, name: str) -> Summary:
    """The summary of a run; one that does not exist is a UsageError."""
    run = archive.run(name)
    outcomes, best = archive.outcomes(name), archive.best(name)
    return Summary(
        run=run,
        evaluations=sum(outcome.count for outcome in outcomes),
        outcomes=outcomes,
        best=Kernel.of(best) if best else None,
        lineage=tuple(Kernel.of(entry) for entry in _line(archive, best)) if best else (),
        calls=archive.spent(name),
    )


def _line(archive: Archive, best: Entry) -> list[Entry]:
    """The best and its first parents, the oldest first."""
    known = {entry.candidate: entry for entry in archive.lineage(best.candidate, best.run)}
    known[best.candidate] = best
    line, seen = [best], {best.candidate}
    while line[-1].parents and (parent := line[-1].parents[0]) in known and parent not in seen:
        line.append(known[parent])
        seen.add(parent)
    return line[::-1]
