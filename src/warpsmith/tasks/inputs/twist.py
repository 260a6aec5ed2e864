"""Perturbations of arguments, decided by a seed."""

from math import prod

import torch
from torch import Tensor

from warpsmith.records import Role, Signature, Trial, Twist
from warpsmith.tasks.inputs.values import Value, Values, computable, tensors

TWISTED = {
    Twist.NUDGED: (Role.INPUT, Role.PARAMETER),
    Twist.SHUFFLED: (Role.INPUT, Role.PARAMETER),
    Twist.RAISED: (Role.INPUT,),
    Twist.PEAKED: (Role.INPUT,),
    Twist.SCALED: (Role.INPUT,),
}
FAR = 8.0  # times the largest magnitude: past the tolerance of every element type after a sum of thousands
# Added to half of a row: past what exp takes, and its square is a number of float16 still. The other half stays: a row
# with one element far above all others has gradients that cancel.
HIGH = 96.0
PEAK = 300.0  # no window of exponents that float32 has holds both what is raised by this and what is not
SHARE = 16  # at most one of so many elements is raised
SCALE = 2.0**20  # of values around one: float16 ends at 2^16, and of 2^-20 it has four bits


def twisted(arguments: Values, signature: Signature, trial: Trial) -> Values:
    """Return the arguments after the perturbation of a test input; only inputs and parameters change."""
    if trial.twist is Twist.NONE:
        return arguments
    # The constant keeps this stream apart from the one that drew the values.
    source = torch.Generator().manual_seed(trial.seed ^ 0x7157)
    pairs = list(zip(signature.arguments, arguments, strict=True))
    open_ones = [value for spec, value in pairs if spec.role in TWISTED[trial.twist]]
    fit = [tensor for tensor in tensors(open_ones) if tensor.is_floating_point() and tensor.numel()]
    if not fit:
        return arguments
    found = TWISTS[trial.twist]([computable(tensor) for tensor in fit], source)
    changed = {id(old): new.to(old.dtype) for old, new in zip(fit, found, strict=True)}
    return tuple(_exchanged(value, changed) for value in arguments)


def _exchanged(value: Value, changed: dict[int, Tensor]) -> Value:
    if isinstance(value, Tensor):
        return changed.get(id(value), value)
    return tuple(changed.get(id(part), part) for part in value) if isinstance(value, tuple) else value


def _nudged(every: list[Tensor], source: torch.Generator) -> list[Tensor]:
    """Raise one element far above all others."""
    chosen = _below(len(every), source)
    found = every[chosen].clone()
    index = torch.unravel_index(torch.randint(found.numel(), (), generator=source), found.shape)
    # Far above the maximum, so that the change shows in sums, maxima and norms alike.
    found[index] = (FAR * found.abs().max().double() + 1).to(found.dtype)
    return [*every[:chosen], found, *every[chosen + 1 :]]


def _raised(every: list[Tensor], source: torch.Generator) -> list[Tensor]:
    return _with_rows(every, HIGH, source)


def _peaked(every: list[Tensor], source: torch.Generator) -> list[Tensor]:
    return _with_rows(every, PEAK, source)


def _with_rows(every: list[Tensor], by: float, source: torch.Generator) -> list[Tensor]:
    """Raise part of a row of each tensor.

    No two raised rows may meet in a product, which float32 could not represent: each row is in a matrix or in columns
    of its own, or only one tensor changes.
    """
    count, room = len(every), min(prod(tensor.shape[:-2]) for tensor in every)
    if room >= count:
        places = torch.randperm(room, generator=source).tolist()
        return [_with_row(one, place, (0, 1), by, source) for one, place in zip(every, places, strict=False)]
    if min(tensor.shape[-1] if tensor.dim() else 1 for tensor in every) >= count:
        return [_with_row(one, 0, (number, count), by, source) for number, one in enumerate(every)]
    chosen = _below(count, source)
    return [_with_row(one, 0, (0, 1), by, source) if i == chosen else one for i, one in enumerate(every)]


def _with_row(tensor: Tensor, place: int, part: tuple[int, int], by: float, source: torch.Generator) -> Tensor:
    """Raise up to half of a row of one matrix, within one part of its columns."""
    found = tensor.clone()
    # None adds leading axes, so a vector is a stack of one matrix with one row.
    stack = found[(None,) * (3 - found.dim())]
    matrix = stack[torch.unravel_index(torch.tensor(place), stack.shape[:-2])]
    rows, width = matrix.shape
    number, count = part
    first, last = width * number // count, width * (number + 1) // count
    length = max(1, min(last - first, width // 2, tensor.numel() // SHARE))
    begin = first + _below(last - first - length + 1, source)
    matrix[_below(rows, source), begin : begin + length].add_(by)  # a view, whatever the strides
    return found


def _shuffled(every: list[Tensor], source: torch.Generator) -> list[Tensor]:
    """Return the same values in another order."""
    return [_reordered(tensor, torch.randperm(tensor.numel(), generator=source)) for tensor in every]


def _reordered(tensor: Tensor, order: Tensor) -> Tensor:
    found = torch.empty_like(tensor)  # keeps the strides
    return found.copy_(tensor.reshape(-1)[order.to(tensor.device)].reshape(tensor.shape))


def _scaled(every: list[Tensor], source: torch.Generator) -> list[Tensor]:
    """Multiply by a power of two and its inverse."""
    # A secret choice of the side, so that a kernel cannot expect small first arguments.
    first = SCALE if _below(2, source) else 1 / SCALE
    return [tensor * (1 / first if place % 2 else first) for place, tensor in enumerate(every)]


def _below(bound: int, source: torch.Generator) -> int:
    return int(torch.randint(bound, (), generator=source))


TWISTS = {
    Twist.NUDGED: _nudged,
    Twist.SHUFFLED: _shuffled,
    Twist.RAISED: _raised,
    Twist.PEAKED: _peaked,
    Twist.SCALED: _scaled,
}
