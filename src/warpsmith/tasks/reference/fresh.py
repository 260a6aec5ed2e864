"""Endless fresh problems, each with other inputs."""

from collections.abc import Iterator

import torch

from warpsmith.records import Direction, Trial
from warpsmith.tasks.host import LocalTask, OpenTask
from warpsmith.tasks.inputs import KeyedRandom, input_seed, unrepeated
from warpsmith.tasks.reference.program import Problem, moved, problem, sided, solved


def problems(task: OpenTask, direction: Direction, trial: Trial, seed: int, device: str) -> Iterator[Problem]:
    """Yield endless fresh problems from a secret seed."""
    draw = KeyedRandom(seed, "problems")
    # The generator of `unrepeated` replaces the seed: timed inputs stand in no record.
    while True:
        # Each problem has a seed of its own, so no two problems share values.
        other = trial.model_copy(update={"seed": input_seed(draw)})
        if isinstance(task, LocalTask):
            with unrepeated(draw):
                one = problem(task.program, direction, other, device)
        else:  # a foreign task runs where it is confined
            one = moved(task.problem(direction, other), device)
        yield one


def outline(task: OpenTask, direction: Direction, trial: Trial) -> Problem:
    """Return a problem without numbers: its shapes, strides and element types alone."""
    if not isinstance(task, LocalTask):
        return task.problem(direction, trial)
    program = sided(task.program, direction)
    # The meta device gives shapes and strides without memory.
    with torch.device("meta"):
        arguments = program.arguments(trial)
    return solved(program, direction, arguments, 0)
