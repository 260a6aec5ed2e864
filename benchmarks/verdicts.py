"""Whether verdicts repeat: honest kernels must never be refused, wrong kernels near the bound hardly ever pass.

    python benchmarks/verdicts.py [--device vgpu] [--jobs 16] [--shard 1/6] [--minutes 20]

Honest are the suite's seeds, the published kernels and the controls of tests/honest, each by about 50 secret seeds;
wrong are those of tests/near_bound/list.toml, each by 100. An honest kernel ends at its first refusal, a wrong one at
its second pass. Outcomes are kept by (subject, seed, tree) in a file of JSON lines: a run goes on where another ended,
and shards on other machines are joined by putting their files together. `--report` prints what the files say.
"""

import argparse
import json
import multiprocessing
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import comb
from pathlib import Path

from warpsmith.base import digest, digest_files, digest_json
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.corpus import read_corpus
from warpsmith.evaluation.processes import Grade, pool_of_judges
from warpsmith.evaluation.run import grade
from warpsmith.languages import language_of
from warpsmith.records import CHANCE, Candidate, Direction, Verdict

ROOT = Path(__file__).parents[1]
SUITE, KERNELS, HONEST = ROOT / "src/warpsmith/tasks/suite", ROOT / "kernels", ROOT / "tests/honest"
NEAR = ROOT / "tests/near_bound"
SOURCES = (".py", ".toml", ".cu", ".cuh", ".h", ".cc", ".cpp")
HONEST_ROUNDS, WRONG_ROUNDS = 53, 100
MOST_PASSES = 1  # of a wrong kernel, in a hundred
SMOKE_MINUTES = 5.0
SEED_BITS = 62


@dataclass(frozen=True)
class VerdictSubject:
    """A kernel that is evaluated again and again."""

    name: str
    candidate: Candidate
    is_wrong: bool

    @property
    def key(self) -> str:
        """The name and the text: another text is another subject."""
        return f"{self.name}#{self.candidate.id[:8]}"


@dataclass(frozen=True)
class RepeatedOutcome:
    """One evaluation of a subject."""

    subject: str
    is_wrong: bool
    seed: int
    tree: str
    device: str
    verdict: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_void(self) -> bool:
        """Whether it says nothing: a machine that lacks something, or a fault of ours."""
        return self.verdict in (Verdict.FAULT, Verdict.SKIP) or self.reason in CHANCE

    @property
    def passed(self) -> bool:
        """Whether the kernel was taken for right."""
        return self.verdict == Verdict.PASS


@dataclass(frozen=True)
class Rounds:
    """How often a subject is evaluated."""

    honest: int
    wrong: int

    @property
    def most(self) -> int:
        """The most of either."""
        return max(self.honest, self.wrong)

    def of(self, subject: VerdictSubject) -> int:
        """Those of one subject."""
        return self.wrong if subject.is_wrong else self.honest


SMOKE = Rounds(honest=1, wrong=2)


@dataclass
class Ledger:
    """Outcomes by subject, those of this tree and device alone; new ones are appended to a file."""

    tree: str
    device: str
    path: Path | None = None
    found: dict[str, dict[int, RepeatedOutcome]] = field(default_factory=dict)

    def read(self, paths: Iterable[Path]) -> None:
        """Take what earlier runs and other shards have left."""
        for path in paths:
            for line in path.read_text().splitlines() if path.is_file() else ():
                one = RepeatedOutcome(**json.loads(line))
                if (one.tree, one.device) == (self.tree, self.device):
                    self.found.setdefault(one.subject, {})[one.seed] = one

    def add(self, one: RepeatedOutcome) -> None:
        """Keep an outcome, on disk at once."""
        self.found.setdefault(one.subject, {})[one.seed] = one
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")

    def of(self, subject: VerdictSubject) -> list[RepeatedOutcome]:
        """What is known of a subject."""
        return list(self.found.get(subject.key, {}).values())

    def has(self, subject: VerdictSubject, seed: int) -> bool:
        """Whether an outcome is known."""
        return seed in self.found.get(subject.key, {})

    def is_done(self, subject: VerdictSubject) -> bool:
        """Whether a subject has ended: refused though honest, passed twice though wrong, or nothing to be learnt."""
        known = self.of(subject)
        if any(one.is_void for one in known):
            return True
        if subject.is_wrong:
            return sum(one.passed for one in known) > MOST_PASSES
        return any(not one.passed for one in known)


def seed_of(subject: VerdictSubject, tree: str, number: int) -> int:
    """A seed of a subject on a tree; a run that is resumed has the same ones."""
    return int(digest_json([tree, subject.key, number]), 16) % (1 << SEED_BITS)


def honest_subjects() -> Iterator[VerdictSubject]:
    """Seeds, published kernels and controls."""
    for path in (*sorted(SUITE.glob("*/*.cu")), *sorted(KERNELS.glob("*/*.cu"))):
        yield _subject(path, path.parent.name, Direction.from_stem(path.stem))
    for one in read_corpus([HONEST]):
        if one.device != "cuda":
            yield _subject(Path(one.path), one.task, one.direction)


def wrong_subjects() -> Iterator[VerdictSubject]:
    """The kernels of the list, each with its macros."""
    for row in tomllib.loads((NEAR / "list.toml").read_text())["kernel"]:
        (header,) = [one for one in read_corpus([NEAR]) if Path(one.path).name == row["file"]]
        subject = _subject(Path(header.path), header.task, header.direction, row["macros"])
        yield VerdictSubject(row["name"], subject.candidate, is_wrong=True)


def _subject(path: Path, task: str, direction: Direction, macros: Mapping[str, str] | None = None) -> VerdictSubject:
    source = path.read_text()
    candidate = Candidate(
        task=task, direction=direction, source=source, language=language_of(source), macros=macros or {}
    )
    return VerdictSubject(str(path.relative_to(ROOT)), candidate, is_wrong=False)


def tree_digest() -> str:
    """The hash of what decides a verdict: the package's sources."""
    paths = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in SOURCES)
    return digest(digest_files(paths), *(str(path.relative_to(ROOT)) for path in paths))[:16]


def upper_bound(wrong: int, count: int, confidence: float = 0.95) -> float:
    """The largest rate at which so few of so many are still as likely as 5 % (Clopper and Pearson)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        likely = sum(comb(count, i) * rate**i * (1 - rate) ** (count - i) for i in range(wrong + 1))
        low, high = (rate, high) if likely > 1 - confidence else (low, rate)
    return high


def evaluate_once(device: str, tree: str, subject: VerdictSubject, seed: int, by: Grade = grade) -> RepeatedOutcome:
    """One evaluation, as far as the check: the cheapest stage that compares results."""
    begin = time.monotonic()
    record = by(subject.candidate, EvaluationConfig(device=device, until="check"), seed)
    ended = record.ended
    return RepeatedOutcome(
        subject=subject.key,
        is_wrong=subject.is_wrong,
        seed=seed,
        tree=tree,
        device=device,
        verdict=str(record.concluded),
        reason=str(ended.reason or "") if ended else "",
        detail=ended.detail[:300] if ended else "",
        seconds=round(time.monotonic() - begin, 2),
    )


def evaluate_here(device: str, tree: str, subject: VerdictSubject, seed: int) -> RepeatedOutcome:
    """The same in a process of its own, with one thread of torch: there is a process for every core."""
    import torch

    torch.set_num_threads(1)
    return evaluate_once(device, tree, subject, seed)


@contextmanager
def evaluators(device: str, jobs: int) -> Iterator[tuple[Executor, Callable[..., RepeatedOutcome]]]:
    """Processes that evaluate on the virtual GPU; on a real one threads, and the judges that share it."""
    if device == "cuda":
        with pool_of_judges(EvaluationConfig(device=device), jobs) as (threads, by):
            yield threads, partial(evaluate_once, by=by)
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as processes:
            yield processes, evaluate_here


def run(subjects: Sequence[VerdictSubject], ledger: Ledger, rounds: Rounds, jobs: int, until: float) -> None:
    """Evaluate until every subject has ended, or the time has: round by round, several subjects at once."""
    left = [(number, subject) for number in range(rounds.most) for subject in subjects if number < rounds.of(subject)]
    waiting, busy = iter(left), dict[Future[RepeatedOutcome], VerdictSubject]()
    with evaluators(ledger.device, jobs) as (pool, one):
        while True:
            while len(busy) < jobs and time.monotonic() < until and (chosen := next(waiting, None)) is not None:
                number, subject = chosen
                seed = seed_of(subject, ledger.tree, number)
                if not ledger.is_done(subject) and not ledger.has(subject, seed):
                    busy[pool.submit(one, ledger.device, ledger.tree, subject, seed)] = subject
            if not busy:
                return
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                busy.pop(done)
                ledger.add(outcome := done.result())
                if outcome.passed == outcome.is_wrong or outcome.is_void:
                    print(f"{outcome.verdict}  {outcome.subject}, seed {outcome.seed}: {outcome.detail}", flush=True)


def report(subjects: Sequence[VerdictSubject], ledger: Ledger, rounds: Rounds) -> tuple[list[str], bool]:
    """The lines that say what is known, and whether it is as required."""
    known = [(subject, [one for one in ledger.of(subject) if not one.is_void]) for subject in subjects]
    honest = [one for subject, found in known if not subject.is_wrong for one in found]
    refused = [one for one in honest if not one.passed]
    wrong = [
        (subject.name, len(found), sum(one.passed for one in found)) for subject, found in known if subject.is_wrong
    ]
    bad = [name for name, _, passed in wrong if passed > MOST_PASSES]
    void = [one.subject for subject in subjects for one in ledger.of(subject) if one.is_void]
    lacking = [one for one, found in known if not ledger.is_done(one) and len(found) < rounds.of(one)]
    return [
        f"tree {ledger.tree}, {ledger.device}",
        *(f"{passed:3} of {count:3} passed  {name}" for name, count, passed in wrong),
        *(f"refused  {one.subject}, seed {one.seed}: {one.detail}" for one in refused),
        f"honest evaluations refused: {len(refused)} of {len(honest)}, of {len(known) - len(wrong)} kernels; "
        f"the rate is below {upper_bound(len(refused), len(honest)):.3%} with 95 % confidence",
        f"wrong kernels that passed more than once: {len(bad)} of {len(wrong)}",
        *([f"without a verdict: {', '.join(void)}"] if void else []),
        f"not ended yet: {len(lacking)} of {len(subjects)} subjects",
    ], not refused and not bad


def main() -> int:
    """Evaluate, and print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("vgpu", "cuda"), default="vgpu")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--shard", default="1/1", help="this part of the subjects, of so many")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no evaluation after so long")
    parser.add_argument("--honest-rounds", type=int, default=HONEST_ROUNDS)
    parser.add_argument("--wrong-rounds", type=int, default=WRONG_ROUNDS)
    parser.add_argument("--only", default="", help="subjects whose name has this in it")
    parser.add_argument("--out", type=Path, default=Path("verdicts.jsonl"))
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="files of other shards, to be read")
    parser.add_argument("--smoke", action="store_true", help="five minutes: one round, three of wrong kernels")
    parser.add_argument("--report", action="store_true", help="evaluate nothing")
    given = parser.parse_args()
    rounds, minutes = Rounds(given.honest_rounds, given.wrong_rounds), given.minutes
    if given.smoke:
        rounds, minutes = SMOKE, SMOKE_MINUTES
    part, parts = map(int, given.shard.split("/"))
    subjects = [one for one in (*wrong_subjects(), *honest_subjects()) if given.only in one.name][part - 1 :: parts]
    ledger = Ledger(tree_digest(), given.device, given.out)
    ledger.read([given.out, *given.also])
    if not given.report:
        run(subjects, ledger, rounds, given.jobs, time.monotonic() + 60 * minutes)
    lines, is_good = report(subjects, ledger, rounds)
    print("\n".join(lines))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
