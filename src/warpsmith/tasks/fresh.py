"""Fresh problems in number: every one is a draw of its own, so that nothing can be replayed or pieced together."""

import random
from collections.abc import Iterator

import torch

from warpsmith.records import Direction, Trial
from warpsmith.tasks.draw import unrepeated
from warpsmith.tasks.opened import LocalTask, OpenTask
from warpsmith.tasks.program import Problem, Program, moved, sided, solved
from warpsmith.tasks.twist import twisted
from warpsmith.tasks.values import mapped


def problems(task: OpenTask, direction: Direction, trial: Trial, seed: int, device: str) -> Iterator[Problem]:
    """Endless fresh problems of a trial, on the device, from one secret seed."""
    draw = random.Random(seed)
    while True:
        other = trial.model_copy(update={"seed": draw.randrange(1 << 31)})
        if isinstance(task, LocalTask):
            yield _here(sided(task.program, direction), direction, other, draw, device)
        else:  # a foreign task runs where it is confined
            yield moved(task.problem(direction, other), device)


def outline(task: OpenTask, direction: Direction, trial: Trial) -> Problem:
    """A problem of this trial of which only the shapes, strides and element types matter."""
    if not isinstance(task, LocalTask):
        return task.problem(direction, trial)
    program = sided(task.program, direction)
    with torch.device("meta"):
        arguments = program.arguments(trial)
    return solved(program, direction, arguments, 0)


def _here(program: Program, direction: Direction, trial: Trial, draw: random.Random, device: str) -> Problem:
    with unrepeated(draw):  # upstream gradients as well
        with torch.device(device):  # the draw happens there too: a large one takes the CPU seconds
            drawn = mapped(program.arguments(trial), lambda tensor: tensor.to(device))
        return solved(program, direction, twisted(drawn, program.task.forward, trial), trial.seed)
