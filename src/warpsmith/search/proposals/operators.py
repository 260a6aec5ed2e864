"""Optimization ideas, and the operators that ask models for kernels."""

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warpsmith.records import Direction, Dtype, Group, Model, Task

FILE = Path(__file__).parent / "ideas.toml"
SUITS = 4.0  # weight of an idea that helps against the binding resource
TRIED = 0.5  # weight factor for each time it was tried on this task
PRODUCT = 8.0  # operations per byte: a pass over rows has fewer, a matrix product of useful size has more
HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)


class Idea(Model):
    """One optimization idea: advice, when it applies, and the resources it helps with."""

    id: str
    advice: str
    when: str
    since: float = 0.0  # compute capability
    needs: tuple[str, ...] = ()  # traits of TRAITS
    about: str = ""  # a regular expression on the task's name, description and source
    helps: tuple[str, ...] = ()

    def suits(self, task: Task, direction: Direction) -> bool:
        """Return whether the idea fits one direction of a task."""
        words = f"{task.name}\n{task.description}\n{task.source}"
        told = re.search(self.about, words, re.IGNORECASE) is not None
        return told and all(TRAITS[need](task, direction) for need in self.needs)


def _is_product(task: Task, direction: Direction) -> bool:
    """Return whether some case has many operations per byte; unknown work counts as many."""
    found = [task.least(direction, case) for case in task.group(Group.TIMING) or task.cases]
    # Without formulas nothing is known, and an idea for products may help.
    return any(work is None or work.flops >= PRODUCT * work.bytes for work in found)


def _has_halves(task: Task, _direction: Direction) -> bool:
    return any(case.dtype in HALVES for case in task.cases)


TRAITS: Mapping[str, Callable[[Task, Direction], bool]] = {
    "product": _is_product,
    "halves": _has_halves,
    "tensor cores": lambda task, direction: task.precision.tf32 or _has_halves(task, direction),
    "library": lambda task, direction: bool(task.libraries),
    "forward": lambda task, direction: direction is Direction.FORWARD,
    "backward": lambda task, direction: direction is Direction.BACKWARD,
}


@cache
def load_ideas() -> tuple[Idea, ...]:
    """Return all ideas, in the order of the file."""
    return tuple(Idea.model_validate(row) for row in tomllib.loads(FILE.read_text())["idea"])


def applicable_ideas(capability: float, task: Task, direction: Direction) -> tuple[Idea, ...]:
    """Return the ideas for a compute capability and one direction of a task."""
    return tuple(idea for idea in load_ideas() if idea.since <= capability and idea.suits(task, direction))


def draw_idea(among: Sequence[Idea], binding: str, tried: Mapping[str, int], draw: random.Random) -> Idea:
    """Draw one idea: likelier if it helps with the binding resource, less likely the more it was tried."""
    # Halved for each earlier try, so that all ideas of the library come to turn.
    weights = [(SUITS if binding in idea.helps else 1.0) * TRIED ** tried.get(idea.id, 0) for idea in among]
    return draw.choices(list(among), weights)[0]


@dataclass(frozen=True)
class Operator:
    """One operator: its template, the number of parents, and the other parts of its prompt."""

    name: str
    parents: int = 1
    idea: bool = False
    broken: bool = False  # works on a failed kernel
    patch: bool = False  # the answer is a diff
    context: bool = True  # the prompt shows other kernels


OPERATORS: Mapping[str, Operator] = {
    row.name: row
    for row in (
        Operator("improve", idea=True),
        Operator("rewrite", parents=0, idea=True),
        Operator("crossover", parents=2),
        Operator("simplify"),
        Operator("repair", parents=0, broken=True, context=False),
        Operator("patch", idea=True, patch=True),
    )
}
TUNE = "tune"
SEED = "seed"
TRANSLATE = "translate"


def usable_operators(members: int, broken: int) -> tuple[str, ...]:
    """Return the operators that have kernels to work on."""
    return tuple(
        row.name for row in OPERATORS.values() if (broken > 0 if row.broken else members >= max(1, row.parents))
    )
