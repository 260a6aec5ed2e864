"""Measure how often a verdict is wrong: honest kernels that are refused, wrong kernels near the bound that pass.

    python benchmarks/verdicts.py [--device vgpu] [--jobs 16] [--shard 1/6] [--minutes 20]

Honest kernels are the suite's seeds, the published kernels and the controls of tests/honest, each with 53 secret seeds.
Wrong kernels are those of tests/near_bound/list.toml, each with 100. Subjects take turns, so that a part of a run has
seen all of them. An honest kernel ends at its first refusal, a wrong kernel at its second pass. Outcomes are stored by
(subject, seed, tree) as JSON lines: a later run continues, and files of shards are read together (`--also`). The run
ends by itself after `--minutes`; what is not finished then is dropped. `--report` prints what the files contain.
"""

import argparse
import ast
import json
import multiprocessing
import re
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
from statistics import mean

from warpsmith.base import digest, digest_json
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.corpus import read_corpus
from warpsmith.evaluation.processes import Grade, pool_of_judges
from warpsmith.evaluation.run import grade
from warpsmith.languages import language_of
from warpsmith.records import CHANCE, Candidate, Direction, Reason, Verdict

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/warpsmith"
SUITE, KERNELS, HONEST = PACKAGE / "tasks/suite", ROOT / "kernels", ROOT / "tests/honest"
NEAR = ROOT / "tests/near_bound"
# What decides a verdict up to the check. Timing, profiles and model reviewers come after it or are not run.
DECIDING = ("base", "isolation", "records", "tasks", "languages", "machines", "evaluation")
BESIDE = ("tasks/filters", "tasks/inspection", "evaluation/timing", "evaluation/profile", "evaluation/verify")
NATIVE = (".cc", ".cpp", ".cu", ".cuh", ".h", ".in", ".inc", ".map", ".json", ".txt", "")
HONEST_ROUNDS, WRONG_ROUNDS = 53, 100
MOST_PASSES = 1  # of a wrong kernel, in 100 evaluations
BUSY = (Reason.TIME_LIMIT, Reason.COMPILE_LIMIT)  # by the wall clock, which counts the time of other processes too
MOST_VOID = 1  # outcomes without a verdict; a busy machine may cause one
SMOKE_MINUTES = 5.0
SEED_BITS = 62
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Strings are matched first, so that a comment sign in one of them is no comment.
NATIVE_TOKEN = re.compile(
    r'(?P<text>R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?\*/',
    re.S,
)


@dataclass(frozen=True)
class VerdictSubject:
    """A kernel that is evaluated many times."""

    name: str
    candidate: Candidate
    is_wrong: bool

    @property
    def key(self) -> str:
        """The name and a hash of the code: other code is another subject, other comments are not."""
        code = digest_json([native_code(self.candidate.source), dict(self.candidate.macros)])
        return f"{self.name}#{code[:8]}"


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
        """Whether the outcome says nothing: the machine lacks something or was too busy, or the harness failed."""
        return self.verdict in (Verdict.FAULT, Verdict.SKIP) or self.reason in (*CHANCE, *BUSY)

    @property
    def passed(self) -> bool:
        """Whether the kernel was accepted."""
        return self.verdict == Verdict.PASS


@dataclass(frozen=True)
class Rounds:
    """The number of evaluations of each subject."""

    honest: int
    wrong: int

    @property
    def most(self) -> int:
        """The larger number."""
        return max(self.honest, self.wrong)

    def of(self, subject: VerdictSubject) -> int:
        """Return the number for one subject."""
        return self.wrong if subject.is_wrong else self.honest


SMOKE = Rounds(honest=1, wrong=2)


@dataclass
class Ledger:
    """Outcomes of one tree on one device by subject; new outcomes are appended to a file."""

    tree: str
    device: str
    path: Path | None = None
    found: dict[str, dict[int, RepeatedOutcome]] = field(default_factory=dict)

    def read(self, paths: Iterable[Path]) -> None:
        """Add the outcomes of earlier runs and of other shards; a line that a run was ended in is left out."""
        for path in paths:
            for line in path.read_text().splitlines() if path.is_file() else ():
                try:
                    one = RepeatedOutcome(**json.loads(line))
                except ValueError:
                    continue
                if (one.tree, one.device) == (self.tree, self.device):
                    self.found.setdefault(one.subject, {})[one.seed] = one

    def add(self, one: RepeatedOutcome) -> None:
        """Add an outcome, and write it to the file at once."""
        self.found.setdefault(one.subject, {})[one.seed] = one
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")

    def of(self, subject: VerdictSubject) -> list[RepeatedOutcome]:
        """Return the outcomes of a subject."""
        return list(self.found.get(subject.key, {}).values())

    def has(self, subject: VerdictSubject, seed: int) -> bool:
        """Return whether an outcome is known."""
        return seed in self.found.get(subject.key, {})

    def is_done(self, subject: VerdictSubject) -> bool:
        """Return whether a subject has ended: refused though honest, passed twice though wrong, or twice no verdict."""
        known = self.of(subject)
        if sum(one.is_void for one in known) > MOST_VOID:
            return True
        if subject.is_wrong:
            return sum(one.passed for one in known) > MOST_PASSES
        return any(not one.passed and not one.is_void for one in known)

    def expected_seconds(self, subject: VerdictSubject) -> float:
        """Return how long an evaluation of a subject took at most; 0 if none is known."""
        return max((one.seconds for one in self.of(subject)), default=0.0)


def seed_of(subject: VerdictSubject, tree: str, number: int) -> int:
    """Return a seed of a subject on a tree; a run that continues another has the same seeds."""
    return int(digest_json([tree, subject.key, number]), 16) % (1 << SEED_BITS)


def honest_subjects() -> Iterator[VerdictSubject]:
    """Yield the seeds, the published kernels and the controls."""
    for path in (*sorted(SUITE.glob("*/*.cu")), *sorted(KERNELS.glob("*/*.cu"))):
        yield _subject(path, path.parent.name, Direction.from_stem(path.stem))
    for one in read_corpus([HONEST]):
        if one.device != "cuda":
            yield _subject(Path(one.path), one.task, one.direction)


def wrong_subjects() -> Iterator[VerdictSubject]:
    """Yield the kernels of the list, each with its macros."""
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
    """Return the hash of the code that decides a verdict: without comments, docstrings and the suite's own kernels."""
    paths = [path for name in DECIDING for path in (PACKAGE / name).rglob("*") if path.is_file()]
    parts = [f"{_inside(path)}\n{code}" for path in sorted(paths) if (code := deciding_code(path)) is not None]
    return digest(*parts)[:16]


def _inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def deciding_code(path: Path) -> str | None:
    """Return a file's code without its text for readers; None if the file cannot change a verdict."""
    name = _inside(path)
    if name.startswith(BESIDE) or "__pycache__" in name or (path.is_relative_to(SUITE) and path.suffix == ".cu"):
        return None
    if path.suffix == ".py":
        return python_code(path.read_text())
    if path.suffix == ".toml":
        return json.dumps(tomllib.loads(path.read_text()), sort_keys=True, default=str)
    return native_code(path.read_text()) if path.suffix in NATIVE else None


def python_code(text: str) -> str:
    """Return the syntax tree of a module without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del body[0]
    return ast.dump(tree)


def native_code(text: str) -> str:
    """Return C++ without comments; white space counts only at the ends of preprocessor lines and between words."""
    bare = NATIVE_TOKEN.sub(lambda found: found["text"] or " ", text.replace("\\\n", " "))
    lines: list[str] = [""]
    for line in map(str.strip, bare.splitlines()):
        if line.startswith("#"):
            lines += [" ".join(line.split()), ""]
        else:
            lines[-1] += f" {line}"
    return "\n".join(re.sub(r"\s*(\W)\s*", r"\1", " ".join(part.split())) for part in lines if part.strip())


def upper_bound(wrong: int, count: int, confidence: float = 0.95) -> float:
    """Return the largest rate at which so few of so many still have a probability of 5 % (Clopper and Pearson)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        likely = sum(comb(count, i) * rate**i * (1 - rate) ** (count - i) for i in range(wrong + 1))
        low, high = (rate, high) if likely > 1 - confidence else (low, rate)
    return high


def evaluate_once(
    config: EvaluationConfig, tree: str, subject: VerdictSubject, seed: int, by: Grade = grade
) -> RepeatedOutcome:
    """Evaluate a subject as far as the check, the cheapest stage that compares results."""
    begin = time.monotonic()
    record = by(subject.candidate, config, seed)
    ended = record.ended
    return RepeatedOutcome(
        subject=subject.key,
        is_wrong=subject.is_wrong,
        seed=seed,
        tree=tree,
        device=config.device,
        verdict=str(record.concluded),
        reason=str(ended.reason or "") if ended else "",
        detail=ended.detail[:300] if ended else "",
        seconds=round(time.monotonic() - begin, 2),
    )


def evaluate_here(config: EvaluationConfig, tree: str, subject: VerdictSubject, seed: int) -> RepeatedOutcome:
    """Evaluate in a process that has one thread of torch: there is a process for every core."""
    import torch

    torch.set_num_threads(1)
    return evaluate_once(config, tree, subject, seed)


@contextmanager
def evaluators(config: EvaluationConfig, jobs: int) -> Iterator[tuple[Executor, Callable[..., RepeatedOutcome]]]:
    """Open processes that evaluate on the virtual GPU, or threads and evaluator processes that share a real GPU.

    At the end processes are terminated: an evaluation that is still running is dropped.
    """
    if config.device == "cuda":
        with pool_of_judges(config, jobs) as (threads, by):
            yield threads, partial(evaluate_once, by=by)
        return
    processes = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
    try:
        yield processes, evaluate_here
    finally:
        for child in multiprocessing.active_children():
            child.terminate()
        processes.shutdown(cancel_futures=True)


def waiting_calls(
    subjects: Sequence[VerdictSubject], ledger: Ledger, rounds: Rounds, until: float
) -> Iterator[tuple[VerdictSubject, int]]:
    """Yield subjects and seeds whose outcome is unknown, round by round, as long as there is time for them."""
    for number in range(rounds.most):
        for subject in subjects:
            seed = seed_of(subject, ledger.tree, number)
            if number >= rounds.of(subject) or ledger.is_done(subject) or ledger.has(subject, seed):
                continue
            if time.monotonic() + ledger.expected_seconds(subject) >= until:
                continue
            yield subject, seed


def run(
    subjects: Sequence[VerdictSubject],
    ledger: Ledger,
    rounds: Rounds,
    jobs: int,
    until: float,
    config: EvaluationConfig,
) -> None:
    """Evaluate until every subject has ended or the time is over: round by round, several subjects at once."""
    waiting, busy = waiting_calls(subjects, ledger, rounds, until), set[Future[RepeatedOutcome]]()
    with evaluators(config, jobs) as (pool, evaluate):
        while True:
            while len(busy) < jobs and (chosen := next(waiting, None)) is not None:
                busy.add(pool.submit(evaluate, config, ledger.tree, *chosen))
            done, _ = wait(busy, timeout=max(0.0, until - time.monotonic()), return_when=FIRST_COMPLETED)
            if not done:
                return
            for one in done:
                busy.remove(one)
                ledger.add(outcome := one.result())
                if outcome.passed == outcome.is_wrong or outcome.is_void:
                    print(f"{outcome.verdict}  {outcome.subject}, seed {outcome.seed}: {outcome.detail}", flush=True)


def report(subjects: Sequence[VerdictSubject], ledger: Ledger, rounds: Rounds) -> tuple[list[str], bool]:
    """Return the lines that say what is known, and whether it is as required."""
    known = [(subject, [one for one in ledger.of(subject) if not one.is_void]) for subject in subjects]
    honest = [one for subject, found in known if not subject.is_wrong for one in found]
    refused = [one for one in honest if not one.passed]
    wrong = [
        (subject.name, len(found), sum(one.passed for one in found)) for subject, found in known if subject.is_wrong
    ]
    bad = [name for name, _, passed in wrong if passed > MOST_PASSES]
    void = [one.subject for subject in subjects for one in ledger.of(subject) if one.is_void]
    lacking = [one for one, found in known if not ledger.is_done(one) and len(found) < rounds.of(one)]
    seconds = [one.seconds for _, found in known for one in found]
    return [
        f"tree {ledger.tree}, {ledger.device}",
        *(f"{passed:3} of {count:3} passed  {name}" for name, count, passed in wrong),
        *(f"refused  {one.subject}, seed {one.seed}: {one.detail}" for one in refused),
        f"honest evaluations refused: {len(refused)} of {len(honest)}, of {len(known) - len(wrong)} kernels; "
        f"the rate is below {upper_bound(len(refused), len(honest)):.3%} with 95 % confidence",
        f"wrong kernels that passed more than once: {len(bad)} of {len(wrong)}",
        *([f"without a verdict: {', '.join(void)}"] if void else []),
        f"not ended yet: {len(lacking)} of {len(subjects)} subjects",
        f"{mean(seconds or [0.0]):.1f} s an evaluation; about {_hours_left(known, ledger, rounds):.1f} core hours left",
    ], not refused and not bad


def _hours_left(known: Sequence[tuple[VerdictSubject, list[RepeatedOutcome]]], ledger: Ledger, rounds: Rounds) -> float:
    """Return the time of the evaluations that are left, from the mean of each subject's or of all."""
    every = mean([one.seconds for _, found in known for one in found] or [0.0])
    left = 0.0
    for subject, found in known:
        if not ledger.is_done(subject):
            left += max(0, rounds.of(subject) - len(found)) * mean([one.seconds for one in found] or [every])
    return left / 3600


def main() -> int:
    """Evaluate, and print what is known."""
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("vgpu", "cuda"), default="vgpu")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--shard", default="1/1", help="this part of the subjects, of so many")
    parser.add_argument("--minutes", type=float, default=20.0, help="end after so long")
    parser.add_argument("--honest-rounds", type=int, default=HONEST_ROUNDS)
    parser.add_argument("--wrong-rounds", type=int, default=WRONG_ROUNDS)
    parser.add_argument("--only", default="", help="subjects whose name has this in it")
    parser.add_argument("--out", type=Path, default=Path("verdicts.jsonl"))
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="files of other shards, to be read")
    parser.add_argument("--smoke", action="store_true", help="five minutes: one round, two of wrong kernels")
    parser.add_argument("--trust", action="store_true", help="evaluate although the machine confines poorly")
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
        config = EvaluationConfig(device=given.device, until="check", trust=given.trust)
        run(subjects, ledger, rounds, given.jobs, begin + 60 * minutes, config)
    lines, is_good = report(subjects, ledger, rounds)
    print("\n".join(lines))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
