"""Every configuration that a seed declares compiles and is right on the virtual GPU's small shapes.

`python scripts/check_tunables.py [--jobs N] [--sample N] [SEED …]`, a seed as `layernorm/forward`; all when none is
given.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from warpsmith.base import evaluate_formula
from warpsmith.evaluation.check.run import CheckSubject
from warpsmith.evaluation.verify.virtual import run_virtual
from warpsmith.languages.cuda.tunables import Space, format_macros, read_space
from warpsmith.languages.nvcc import compile
from warpsmith.machines.virtual import describe
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Candidate, Case, CompileFacts, Direction, Group, Task, Trial, Verdict
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.reference.program import problem
from warpsmith.tasks.suite import folders, suite_program

# Declared values are for shapes that fill a GPU; these reach the same code on shapes that the virtual GPU runs at once.
SMALL = {"SPLIT": "16", "PART": "16"}


@dataclass(frozen=True)
class Seed:
    """One seed kernel of the suite with the space it declares."""

    task: Task
    direction: Direction
    path: Path

    @property
    def name(self) -> str:
        """As the command takes it."""
        return f"{self.task.name}/{self.direction}"

    @property
    def space(self) -> Space:
        """What can be tuned."""
        return read_space(self.path.read_text())

    def candidate(self, macros: Mapping[str, str]) -> Candidate:
        """The seed at one point."""
        text = self.path.read_text()
        return Candidate(task=self.task.name, direction=self.direction, source=text, macros=dict(macros))


def seeds() -> list[Seed]:
    """All seeds in the torch style."""
    tasks = [(folder, read_task(folder)) for folder in folders().values()]
    return [Seed(task, way, folder / f"seed_{way}.cu") for folder, task in tasks for way in Direction]


def points(seed: Seed) -> Iterator[Mapping[str, str]]:
    """Every declared point, with small values where the declared or fixed ones only matter on large shapes."""
    source = seed.path.read_text()
    fixed = {name: SMALL[name] for name in SMALL if f"// tune: {name} " not in source and f"#ifndef {name}\n" in source}
    for point in seed.space.points():
        yield {**point, **{name: SMALL[name] for name in SMALL if name in point}, **fixed}


def trials(task: Task) -> list[Trial]:
    """The smoke cases, inits and families taken in turn, and the smallest shape that the task allows."""
    cases = list(task.group(Group.SMOKE))
    if task.heldout is not None:
        smallest = {name: -(-reach.low // reach.multiple) * reach.multiple for name, reach in task.heldout.axes.items()}
        allowed = all(evaluate_formula(formula, smallest) for formula in task.heldout.require)
        cases += [Case(name="smallest", group=Group.HELDOUT, axes=smallest, dtype=task.heldout.dtypes[0])] * allowed
    return [_trial(case, place) for place, case in enumerate(cases)]


def _trial(case: Case, place: int) -> Trial:
    init, family = case.inits[place % len(case.inits)], case.families[place % len(case.families)]
    return Trial(case=case, init=init, family=family, seed=place)


def complaint(seed: Seed, macros: Mapping[str, str]) -> str:
    """What is wrong with the seed at this point; empty when nothing is."""
    compiled = compile(seed.candidate(macros), seed.task.signature(seed.direction))
    facts = compiled.result.facts
    if compiled.artifact is None or not isinstance(facts, CompileFacts):
        return f"{compiled.result.reason}: {compiled.result.detail}"
    spilled = [kernel.name for kernel in facts.kernels if kernel.spill_store_bytes]
    if spilled:
        return f"registers spill in {', '.join(spilled)}"
    gpu, program = describe("H200"), suite_program(seed.task.name)
    subject = CheckSubject(seed.task, seed.direction, partial(problem, program))
    signature = seed.task.signature(seed.direction)
    for trial in trials(seed.task):
        with VirtualSession(compiled.artifact, seed.direction.value, signature, gpu) as session:
            result = run_virtual(subject, trial, session, gpu)
        if result.verdict is not Verdict.PASS:
            return f"{trial.case.name} {trial.init} {trial.family}: {result.reason}: {result.detail}"
    return ""


def sampled(seed: Seed, count: int | None) -> list[Mapping[str, str]]:
    """All points, or some drawn by a fixed seed."""
    every = list(points(seed))
    return every if count is None or count >= len(every) else random.Random(7).sample(every, count)


def main() -> int:
    """Checks what was asked for, a line each; 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int)
    options = parser.parse_args()
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for seed in (one for one in seeds() if not options.seeds or one.name in options.seeds):
            chosen = sampled(seed, options.sample)
            found = list(zip(chosen, pool.map(partial(complaint, seed), chosen), strict=True))
            bad = [f"  {format_macros(point)}: {text}" for point, text in found if text]
            sys.stdout.write("\n".join([f"{seed.name}: {len(found)} points, {len(bad)} wrong", *bad]) + "\n")
            sys.stdout.flush()
            wrong += len(bad)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
