"""Fresh problems in number: one draw of a case, mixed anew for every call, so that nothing can be replayed.

A draw of a large case takes long. A roll of the flattened tensors on the device takes microseconds, keeps the family,
and changes nearly every element; but sums, norms and extremes stay. So half of a tensor is written over with another
part of it as well: a kernel that keeps one of those on the device is wrong at the next call.
"""

import random
from collections.abc import Iterator

import torch
from torch import Tensor

from warpsmith.records import Direction, Role, Signature, Trial
from warpsmith.tasks.draw import unrepeated
from warpsmith.tasks.opened import LocalTask, OpenTask
from warpsmith.tasks.program import Problem, Program, moved, sided, solved
from warpsmith.tasks.values import Value, Values, mapped

MIXED = (Role.INPUT, Role.PARAMETER)


def mixed(signature: Signature, arguments: Values, draw: random.Random) -> Values:
    """The arguments with inputs and parameters mixed and indices rolled by secret offsets; tables stay as they are."""

    def one(role: Role, value: Value) -> Value:
        return mapped((value,), lambda tensor: _mix(tensor, role, draw))[0]

    return tuple(one(spec.role, value) for spec, value in zip(signature.arguments, arguments, strict=True))


def _mix(tensor: Tensor, role: Role, draw: random.Random) -> Tensor:
    count = tensor.numel()
    if count < 2 or (role not in MIXED and tensor.is_floating_point()):
        return tensor
    flat = tensor.flatten().roll(draw.randrange(1, count))
    if tensor.is_floating_point():  # of indices each may have to be there once
        half = count // 2
        here, there = (draw.randrange(count - half + 1) for _ in range(2))
        flat[here : here + half] = flat[there : there + half].clone()
    return flat.reshape(tensor.shape)


def problems(task: OpenTask, direction: Direction, trial: Trial, seed: int, device: str) -> Iterator[Problem]:
    """Endless fresh problems of a trial, on the device, from one secret seed."""
    draw = random.Random(seed)
    if isinstance(task, LocalTask):
        yield from _here(sided(task.program, direction), direction, trial, draw, device)
    while True:  # a foreign task runs where it is confined: every problem is a draw of its own
        yield moved(task.problem(direction, trial.model_copy(update={"seed": draw.randrange(1 << 31)})), device)


def outline(task: OpenTask, direction: Direction, trial: Trial) -> Problem:
    """A problem of this trial of which only the shapes, strides and element types matter."""
    if not isinstance(task, LocalTask):
        return task.problem(direction, trial)
    program = sided(task.program, direction)
    with torch.device("meta"):
        arguments = program.arguments(trial)
    return solved(program, direction, arguments, 0)


def _here(program: Program, direction: Direction, trial: Trial, draw: random.Random, device: str) -> Iterator[Problem]:
    with torch.device(device), unrepeated(draw):  # the draw happens there too: a large one takes the CPU seconds
        base = mapped(program.arguments(trial), lambda tensor: tensor.to(device))
    while True:
        with unrepeated(draw):  # upstream gradients
            one = solved(program, direction, mixed(program.task.forward, base, draw), draw.randrange(1 << 31))
        yield one
