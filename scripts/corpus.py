"""Make the corpus that verifiers are calibrated on: `python scripts/corpus.py make [--suite DIR] [--out DIR]`.

Mutants of the seeds by every operator, honest kernels (seeds, controls, rewrites), in an order that makes any beginning
of the file a fair sample. Labels come from a GPU: `warpsmith eval-batch` on the file that this writes.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from warpsmith.base import write_atomic
from warpsmith.bench.corpus import read_corpus
from warpsmith.compile.source import language_of
from warpsmith.records import Candidate, Direction
from warpsmith.verify.mutate import Operator, mutants
from warpsmith.verify.operators import OPERATORS
from warpsmith.verify.rewrites import REWRITES, rewritten
from warpsmith.verify.specimens import REQUESTS, kind_of

ROOT = Path(__file__).parents[1]
SEED = 20251115
AN_OPERATOR = 7  # mutants of each
A_REWRITE = 3  # kernels of each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deed", choices=["make"])
    parser.add_argument("--suite", type=Path, default=ROOT / "src" / "warpsmith" / "suite")
    parser.add_argument("--out", type=Path, default=ROOT / "corpus")
    chosen = parser.parse_args()
    made = corpus(sorted(chosen.suite.glob("*/seed_*.cu")))
    chosen.out.mkdir(exist_ok=True)
    write_atomic(chosen.out / REQUESTS, "".join(f"{one.text()}\n" for one in made).encode())
    kinds = Counter(kind_of(one).value for one in made)
    sys.stdout.write(f"{chosen.out / REQUESTS}: {dict(kinds)}\n")
    return 0


def corpus(seeds: list[Path]) -> list[Candidate]:
    """All kernels, none twice, shuffled."""
    draw, bases = random.Random(SEED), [seed_of(path) for path in seeds]
    made = [*bases, *controls(), *honest_variants(bases, draw), *mutations(bases, draw)]
    unlike = list({one.id: one for one in reversed(made)}.values())
    draw.shuffle(unlike)
    return unlike


def seed_of(path: Path) -> Candidate:
    """A seed as a candidate."""
    source = path.read_text()
    direction = Direction.BACKWARD if "backward" in path.name else Direction.FORWARD
    origin = f"honest seed {path.parent.name}/{path.name}"
    return Candidate(
        task=path.parent.name, direction=direction, source=source, language=language_of(source), origin=origin
    )


def controls() -> Iterator[Candidate]:
    """The honest controls that the virtual GPU runs; whether they pass on a real one is the truth's to say."""
    for one in read_corpus([ROOT / "tests" / "honest"]):
        if one.device != "cuda":
            source = Path(one.path).read_text()
            yield Candidate(
                task=one.task,
                direction=one.direction,
                source=source,
                language=language_of(source),
                origin=f"honest control {Path(one.path).name}",
            )


def honest_variants(bases: list[Candidate], draw: random.Random) -> Iterator[Candidate]:
    """A few seeds after each rewrite, those with the fewest variants first."""
    used: Counter[str] = Counter()
    for rewrite in REWRITES:
        fit = [(base, text) for base in bases if (text := rewritten(base.source, rewrite)) is not None]
        draw.shuffle(fit)
        for base, text in sorted(fit, key=lambda pair: used[pair[0].id])[:A_REWRITE]:
            used[base.id] += 1
            yield changed(base, text, f"honest {rewrite.name} {name_of(base)}")


def mutations(bases: list[Candidate], draw: random.Random) -> Iterator[Candidate]:
    """Some mutants of each operator, over the seeds that have the fewest so far."""
    used: Counter[str] = Counter()
    for operator in OPERATORS:
        yield from _of_operator(operator, bases, used, draw)


def _of_operator(
    operator: Operator, bases: list[Candidate], used: Counter[str], draw: random.Random
) -> Iterator[Candidate]:
    fit = [(base, places) for base in bases if (places := mutants(base.source, operator))]
    draw.shuffle(fit)
    for base, places in sorted(fit, key=lambda pair: used[pair[0].id])[:AN_OPERATOR]:
        used[base.id] += 1
        mutant = draw.choice(places)
        yield changed(base, mutant.source, f"mutant {operator.name} {name_of(base)}:{mutant.line}")


def changed(base: Candidate, source: str, origin: str) -> Candidate:
    """A candidate like its parent with another text."""
    return base.model_copy(update={"source": source, "parents": (base.id,), "origin": origin})


def name_of(base: Candidate) -> str:
    return base.origin.split()[-1]


if __name__ == "__main__":
    sys.exit(main())
