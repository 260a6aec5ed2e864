"""The lineage as a tree by the first parent, the best kernel's line first; diffs for those that are looked at first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff

from warpsmith.archive import Archive
from warpsmith.records import Candidate, Verdict
from warpsmith.report.page import Node
from warpsmith.report.scan import Sight
from warpsmith.report.words import SHORT, lines_of, macro_words

MOST_NODES = 300
MOST_DIFFS = 120
MOST_CHARACTERS = 20_000  # of one diff
MOST_COMPARED = 200_000  # characters of a text; a longer one would take minutes


def choose(sights: Sequence[Sight], best: str, basis: str, most: int = MOST_NODES) -> list[Sight]:
    """The kernels that are shown, oldest first: the best one with its ancestors, then those next in the ranking."""
    known = firsts(sights)
    ranked = [one for one in known.values() if one.score is not None and one.score.basis == basis]
    ranked.sort(key=lambda one: -(one.score.value if one.score else 0.0))
    chosen: dict[str, Sight] = {}
    for sight in [*([known[best]] if best in known else ()), *ranked, *known.values()]:
        for one in upwards(sight, known):
            if len(chosen) >= most or one.candidate in chosen:
                break
            chosen[one.candidate] = one
    return sorted(chosen.values(), key=lambda one: one.number)


def firsts(sights: Iterable[Sight]) -> dict[str, Sight]:
    """The first evaluation of each kernel, which says where it came from."""
    found: dict[str, Sight] = {}
    for sight in sights:
        found.setdefault(sight.candidate, sight)
    return found


def upwards(sight: Sight, known: Mapping[str, Sight]) -> Iterator[Sight]:
    """A kernel and its first parents, the nearest first; one that is its own ancestor ends the line."""
    seen: set[str] = set()
    at: Sight | None = sight
    while at is not None and at.candidate not in seen:
        seen.add(at.candidate)
        yield at
        at = known.get(at.parents[0]) if at.parents else None


def lineage(archive: Archive, run: str, sights: Sequence[Sight], best: str, basis: str) -> tuple[Node, ...]:
    """The nodes of the tree, each after its parent; a parent that is not shown makes a root."""
    chosen = choose(sights, best, basis)
    known = {one.candidate: one for one in chosen}
    line = {one.candidate for one in upwards(known[best], known)} if best in known else set()
    eager = sorted(chosen, key=lambda one: (one.candidate not in line, one.score is None, one.number))[:MOST_DIFFS]
    diffs = _diffs(archive, run, eager, known)
    return tuple(_node(one, known, line, diffs) for one in chosen)


def _node(sight: Sight, known: Mapping[str, Sight], line: set[str], diffs: Mapping[str, str]) -> Node:
    parent = sight.parents[0] if sight.parents and sight.parents[0] in known else ""
    missing = f"no diff: only the first {MOST_DIFFS} are compared" if parent else ""
    if sight.parents and not parent:
        missing = f"its parent {sight.parents[0][:SHORT]} is not shown"
    return Node(
        candidate=sight.candidate,
        parent=parent,
        others=tuple(one for one in sight.parents if one != parent),
        generation=sight.generation,
        operator=sight.operator,
        model=sight.model,
        macros=sight.macros,
        outcome=sight.outcome,
        right=sight.verdict is Verdict.PASS,
        line=sight.candidate in line,
        diff=diffs.get(sight.candidate, ""),
        note="" if sight.candidate in diffs else missing,
    )


def _diffs(archive: Archive, run: str, sights: Sequence[Sight], known: Mapping[str, Sight]) -> dict[str, str]:
    texts: dict[str, Candidate] = {}

    def text(name: str) -> Candidate:
        if name not in texts:
            texts[name] = next(archive.records(run, candidate=name, limit=1)).record.candidate
        return texts[name]

    pairs = [(one.candidate, one.parents[0]) for one in sights if one.parents and one.parents[0] in known]
    return {child: diff(text(parent), text(child)) for child, parent in pairs}


def diff(parent: Candidate, child: Candidate) -> str:
    """What changed, as a unified diff: macros as a line before the text."""
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
    macros = macro_words(candidate.macros)
    return [*([f"// compiled with {macros}"] if macros else []), *lines_of(candidate.source)]
