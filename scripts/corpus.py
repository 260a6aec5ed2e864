"""The corpus that verifiers are calibrated on.

    python scripts/corpus.py make [--suite DIR]          write corpus/requests.jsonl
    python scripts/corpus.py again                       write corpus/again.jsonl: what has no label worth believing yet
    python scripts/corpus.py ask DIR                     write questions for reviewers: DIR/01.md, DIR/02.md, …
    python scripts/corpus.py tell DIR --model NAME       take DIR/01.answer.md, … into corpus/reviews.jsonl

`make`: mutants of the seeds by every operator, honest kernels (seeds, controls, rewrites), in an order that makes any
beginning of the file a fair sample. Labels come from a GPU: `warpsmith eval-batch` on the file that this writes.
`ask`: a draw of honest kernels, mutants of each kind of harm, and attacks; nothing in a question tells which it is.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from warpsmith.base import write_atomic
from warpsmith.evaluation.corpus import read_corpus
from warpsmith.evaluation.verify.calibrate import HARMS
from warpsmith.evaluation.verify.replies import ATTACKS, REVIEWS, ReviewReply
from warpsmith.evaluation.verify.review import ReviewedKernel, panel_prompt
from warpsmith.evaluation.verify.specimens import (
    REQUESTS,
    TRUTH,
    Label,
    LabelledKernel,
    SpecimenOrigin,
    kind_of,
    read_candidates,
    read_specimens,
)
from warpsmith.languages import language_of
from warpsmith.languages.cuda.mutants import Harm, MutationOperator, mutants
from warpsmith.languages.cuda.mutation_operators import OPERATORS
from warpsmith.languages.cuda.rewrites import REWRITES, apply_rewrite
from warpsmith.languages.cuda.text import code_of
from warpsmith.records import Candidate, Direction
from warpsmith.tasks.host import open_task

ROOT = Path(__file__).parents[1]
SEED, ASK_SEED = 20251115, 20251116
AN_OPERATOR = 7  # mutants of each
A_REWRITE = 3  # kernels of each
ASKED_HONEST, ASKED_A_HARM, ASKED_ATTACKS = 16, 8, 8  # kernels that reviewers are shown
INDEX, AGAIN = "index.json", "again.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deed", choices=["make", "again", "ask", "tell"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("reviews"))
    parser.add_argument("--suite", type=Path, default=ROOT / "src" / "warpsmith" / "tasks" / "suite")
    parser.add_argument("--out", type=Path, default=ROOT / "corpus")
    parser.add_argument("--model", default="")
    chosen = parser.parse_args()
    {"make": _make, "again": _again, "ask": _ask, "tell": _tell}[chosen.deed](chosen)
    return 0


def _make(chosen: argparse.Namespace) -> None:
    made = corpus(sorted(chosen.suite.glob("*/seed_*.cu")))
    _write(chosen.out / REQUESTS, [one.text() for one in made])
    kinds = Counter(kind_of(one).value for one in made)
    sys.stdout.write(f"{chosen.out / REQUESTS}: {dict(kinds)}\n")


def _again(chosen: argparse.Namespace) -> None:
    """Kernels without a verdict, honest ones that failed, and their children: the seed's fault would hide theirs."""
    specimens = {one.candidate.id: one for one in read_specimens(chosen.out)}
    failed = {name for name, one in specimens.items() if is_suspect(one)}
    again = [
        one
        for one in read_candidates(chosen.out)
        if one.id not in specimens or one.id in failed or (set(one.parents) & failed and ran(specimens[one.id]))
    ]
    _write(chosen.out / AGAIN, [one.text() for one in again])
    sys.stdout.write(f"{len(again)} kernels in {chosen.out / AGAIN}; append their records to {chosen.out / TRUTH}\n")


def is_suspect(specimen: LabelledKernel) -> bool:
    """An honest kernel that failed: the corpus, a task or the evaluator is wrong, and a person must look."""
    return kind_of(specimen.candidate) is SpecimenOrigin.HONEST and specimen.label is Label.WRONG


def ran(specimen: LabelledKernel) -> bool:
    """Whether it came as far as the GPU."""
    return specimen.stage != "compile"


def _ask(chosen: argparse.Namespace) -> None:
    """One file a kernel, and an index of which is which, without labels."""
    drawn = questions(read_candidates(chosen.out), random.Random(ASK_SEED))
    _write(chosen.out / ATTACKS, [one.text() for one in drawn if kind_of(one) is SpecimenOrigin.ATTACK])
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(drawn, 1):
        task = open_task(one.task).describe()
        prompt = panel_prompt(ReviewedKernel(anonymous(one), task))
        write_atomic(chosen.folder / f"{number:02}.md", f"{prompt.system}\n{prompt.user}".encode())
    index = {f"{number:02}": one.id for number, one in enumerate(drawn, 1)}
    write_atomic(chosen.folder / INDEX, json.dumps(index, indent=1).encode())
    sys.stdout.write(f"{len(drawn)} questions in {chosen.folder}; answer NN.md in NN.answer.md\n")


def _tell(chosen: argparse.Namespace) -> None:
    """The answers that are there, whatever they say; what is missing is named."""
    index: dict[str, str] = json.loads((chosen.folder / INDEX).read_text())
    paths = {number: chosen.folder / f"{number}.answer.md" for number in index}
    missing = [number for number, path in paths.items() if not path.exists()]
    replies = [
        ReviewReply(candidate=index[number], answer=path.read_text(), model=chosen.model)
        for number, path in paths.items()
        if path.exists()
    ]
    _write(chosen.out / REVIEWS, [reply.text() for reply in replies])
    sys.stdout.write(f"{len(replies)} answers in {chosen.out / REVIEWS}; none yet for {', '.join(missing) or 'none'}\n")


def questions(candidates: list[Candidate], draw: random.Random) -> list[Candidate]:
    """Honest kernels, mutants of each kind of harm, attacks; shuffled."""
    honest = [one for one in candidates if kind_of(one) is SpecimenOrigin.HONEST]
    drawn = draw.sample(honest, ASKED_HONEST)
    for harm in Harm:
        fit = [one for one in candidates if HARMS.get(one.origin.split()[1]) is harm]
        drawn += draw.sample(fit, ASKED_A_HARM)
    drawn += draw.sample([*attacks()], ASKED_ATTACKS)
    draw.shuffle(drawn)
    return drawn


def attacks() -> Iterator[Candidate]:
    """The attacks that cheat in the kernel itself; those on the harness's processes need no reviewer to be seen."""
    for one in read_corpus([ROOT / "tests" / "exploits"]):
        source = Path(one.path).read_text()
        if one.attack and "syscall" not in source:
            yield Candidate(
                task=one.task,
                direction=one.direction,
                source=source,
                language=language_of(source),
                origin=f"attack {Path(one.path).stem}",
            )


def anonymous(one: Candidate) -> Candidate:
    """A kernel as a reviewer sees it: no words that say what it is, in any of them."""
    text = code_of(one.source, strings=True)
    if "HONEST" in text:  # an attack has its slow kernel alone behind a switch
        text = re.sub(r"#ifdef HONEST.*?#else|#ifndef HONEST|#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"\battack", "run", re.sub(r"\bhonest", "base", text))
    lines = (line.rstrip() for line in text.strip().split("\n"))
    return one.model_copy(update={"source": re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"})


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())


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
        fit = [(base, text) for base in bases if (text := apply_rewrite(base.source, rewrite)) is not None]
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
    operator: MutationOperator, bases: list[Candidate], used: Counter[str], draw: random.Random
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
