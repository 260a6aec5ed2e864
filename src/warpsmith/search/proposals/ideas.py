"""The library of optimization ideas, and which of them suits a kernel. The ideas are data."""

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from warpsmith.records import Direction, Dtype, Group, Model, Task

FILE = Path(__file__).parent / "ideas.toml"
SUITS = 4.0  # how much likelier an idea is that helps with what binds the kernel
TRIED = 0.5  # how much less likely each time it was tried on this task
PRODUCT = 8.0  # operations a byte: no pass over rows has as many, and every product of some size more
HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)


class Idea(Model):
    """One idea: what to do, when it applies, what a GPU and a task must have for it, and what it helps against."""

    id: str
    advice: str
    when: str
    since: float = 0.0  # compute capability
    needs: tuple[str, ...] = ()  # of the traits below
    about: str = ""  # an expression that the task's own words match
    helps: tuple[str, ...] = ()

    def suits(self, task: Task, direction: Direction) -> bool:
        """Whether one direction of a task has what it needs."""
        words = f"{task.name}\n{task.description}\n{task.source}"
        told = re.search(self.about, words, re.IGNORECASE) is not None
        return told and all(TRAITS[need](task, direction) for need in self.needs)


def _is_product(task: Task, direction: Direction) -> bool:
    """Whether some case calculates much for each byte; one of which nobody knows how much it does may be so."""
    found = [task.least(direction, case) for case in task.group(Group.TIMING) or task.cases]
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
def ideas() -> tuple[Idea, ...]:
    """All of them, in the order of the file."""
    return tuple(Idea.model_validate(row) for row in tomllib.loads(FILE.read_text())["idea"])


def applicable(capability: float, task: Task, direction: Direction) -> tuple[Idea, ...]:
    """Those that a GPU of this compute capability can use for one direction of a task."""
    return tuple(idea for idea in ideas() if idea.since <= capability and idea.suits(task, direction))


def sample(among: Sequence[Idea], binding: str, tried: Mapping[str, int], draw: random.Random) -> Idea:
    """One idea by chance, likelier the better it suits what binds and the less it was tried."""
    weights = [(SUITS if binding in idea.helps else 1.0) * TRIED ** tried.get(idea.id, 0) for idea in among]
    return draw.choices(list(among), weights)[0]
