"""A run's lineage by first parents, with diffs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff

from warpsmith.archive import Archive
from warpsmith.records import Candidate, Verdict
from warpsmith.report.page import Node
from warpsmith.report.scan import EvaluationSummary
from warpsmith.report.words import SHORT, lines_of, macro_flags

MOST_NODES = 300
MOST_DIFFS = 120
MOST_CHARACTERS = 20_000  # of one diff
MOST_COMPARED = 200_000  # characters of a text; a longer one would take minutes


def select_nodes(
    evaluations: Sequence[EvaluationSummary], best: str, basis: str, most: int = MOST_NODES
) -> list[EvaluationSummary]:
    """Select the kernels to show, oldest first: the best with its ancestors, then by rank."""
    known = first_evaluations(evaluations)
    ranked = [one for one in known.values() if one.score is not None and one.score.basis == basis]
    ranked.sort(key=lambda one: -(one.score.value if one.score else 0.0))
    chosen: dict[str, EvaluationSummary] = {}
    # The best kernel first, then by score, then by age: the limit cuts the least interesting ones.
    for evaluation in [*([known[best]] if best in known else ()), *ranked, *known.values()]:
        for one in ancestor_line(evaluation, known):
            if len(chosen) >= most or one.candidate in chosen:
                break
            chosen[one.candidate] = one
    return sorted(chosen.values(), key=lambda one: one.number)


def first_evaluations(evaluations: Iterable[EvaluationSummary]) -> dict[str, EvaluationSummary]:
    """Map each kernel to its first evaluation."""
    found: dict[str, EvaluationSummary] = {}
    for evaluation in evaluations:
        found.setdefault(evaluation.candidate, evaluation)
    return found


def ancestor_line(evaluation: EvaluationSummary, known: Mapping[str, EvaluationSummary]) -> Iterator[EvaluationSummary]:
    """Yield a kernel and its first parents, nearest first; stop at a cycle."""
    # Records from elsewhere may name each other as parents.
    seen: set[str] = set()
    at: EvaluationSummary | None = evaluation
    while at is not None and at.candidate not in seen:
        seen.add(at.candidate)
        yield at
        at = known.get(at.parents[0]) if at.parents else None


def build_lineage(
    archive: Archive, run: str, evaluations: Sequence[EvaluationSummary], best: str, basis: str
) -> tuple[Node, ...]:
    """Return the nodes of the tree, each after its parent. A node whose parent is not shown is a root."""
    chosen = select_nodes(evaluations, best, basis)
    known = {one.candidate: one for one in chosen}
    line = {one.candidate for one in ancestor_line(known[best], known)} if best in known else set()
    # Diffs cost most, so they go to the line of the best kernel first, then to kernels with a score.
    eager = sorted(chosen, key=lambda one: (one.candidate not in line, one.score is None, one.number))[:MOST_DIFFS]
    diffs = _diff_all(archive, run, eager, known)
    return tuple(_node(one, known, line, diffs) for one in chosen)


def _node(
    evaluation: EvaluationSummary, known: Mapping[str, EvaluationSummary], line: set[str], diffs: Mapping[str, str]
) -> Node:
    parent = evaluation.parents[0] if evaluation.parents and evaluation.parents[0] in known else ""
    missing = f"no diff: only the first {MOST_DIFFS} are compared" if parent else ""
    if evaluation.parents and not parent:
        missing = f"its parent {evaluation.parents[0][:SHORT]} is not shown"
    return Node(
        candidate=evaluation.candidate,
        parent=parent,
        others=tuple(one for one in evaluation.parents if one != parent),
        generation=evaluation.generation,
        operator=evaluation.operator,
        model=evaluation.model,
        macros=evaluation.macros,
        outcome=evaluation.outcome,
        right=evaluation.verdict is Verdict.PASS,
        line=evaluation.candidate in line,
        diff=diffs.get(evaluation.candidate, ""),
        note="" if evaluation.candidate in diffs else missing,
    )


def _diff_all(
    archive: Archive, run: str, evaluations: Sequence[EvaluationSummary], known: Mapping[str, EvaluationSummary]
) -> dict[str, str]:
    # One text serves as child of one pair and as parent of others, so it is read once.
    # Texts are read one by one, since all texts of a run need not fit in memory.
    texts: dict[str, Candidate] = {}

    def text(name: str) -> Candidate:
        if name not in texts:
            texts[name] = next(archive.records(run, candidate=name, limit=1)).record.candidate
        return texts[name]

    pairs = [(one.candidate, one.parents[0]) for one in evaluations if one.parents and one.parents[0] in known]
    return {child: diff_candidates(text(parent), text(child)) for child, parent in pairs}


def diff_candidates(parent: Candidate, child: Candidate) -> str:
    """Return a unified diff of two kernels, with their macros as a first line."""
    # difflib takes time with the square of the length.
    longest = max(len(parent.source), len(child.source))
    if longest > MOST_COMPARED:
        return f"not compared: a text of {longest} characters, where at most {MOST_COMPARED} are"
    before, after = _lines(parent), _lines(child)
    names = (parent.id[:SHORT], child.id[:SHORT])
    found = "\n".join(unified_diff(before, after, *names, n=2, lineterm=""))
    if len(found) <= MOST_CHARACTERS:
        return found or "the same text"
    return f"{found[:MOST_CHARACTERS]}\n… {len(found) - MOST_CHARACTERS} characters more were left out"


def _lines(candidate: Candidate) -> list[str]:
    macros = macro_flags(candidate.macros)
    return [*([f"// compiled with {macros}"] if macros else []), *lines_of(candidate.source)]
