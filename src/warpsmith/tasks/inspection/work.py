"""What one call of a foreign task cannot do without, found by running its torch function. Knows no GPU.

Products are counted on the meta device. Bytes are those of results, and of the arguments that results depend on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import nan
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from warpsmith.records import Direction, Signature, Work
from warpsmith.tasks.inputs import Values, computable, mapped, tensors
from warpsmith.tasks.inspection.bound import BoundArgument, values
from warpsmith.tasks.inspection.source import Source, called
from warpsmith.tasks.reference import gradients, upstream

Function: TypeAlias = Callable[[Values], tuple[Tensor, ...]]

# Where an argument is changed, as parts of it: both ends, and four that no stride and no triangle has in common.
PLACES = (0.0, 0.146, 0.382, 0.618, 0.854, 1.0)
ELEMENT_FLOPS = 16  # what an element of an argument takes, in operations of a product
MOST_FLOPS = 2e10  # of all calls that look for what is read: about a second on one core


class WorkEstimate:
    """The least work of the cases of one task. `small` are arguments with values, of its smallest case."""

    def __init__(self, source: Source, forward: Signature, small: Values) -> None:
        self._call: Function = partial(called, source)
        self._forward = forward
        self._small = small

    def works(self, direction: Direction, cases: Mapping[str, Sequence[BoundArgument]]) -> dict[str, Work]:
        """By case, of those that run on the meta device; of none where the smallest takes too long to try."""
        own = self._work(direction, _weightless(self._small), ())
        tries = 2 * len(PLACES) * len(tensors(self._small))
        if (
            own is None
            or tries * (own.flops + ELEMENT_FLOPS * sum(t.numel() for t in tensors(self._small))) > MOST_FLOPS
        ):
            return {}
        read = reads(self._function(direction), self._small)
        found = {name: self._work(direction, _weightless(values(bound)), read) for name, bound in cases.items()}
        return {name: work for name, work in found.items() if work}

    def _function(self, direction: Direction) -> Function:
        """A direction as a function of forward's arguments."""
        if direction is Direction.FORWARD:
            return self._call
        return partial(gradients, self._call, self._forward, grads=upstream(self._call(self._small), 0))

    def _work(self, direction: Direction, arguments: Values, read: Sequence[bool]) -> Work | None:
        try:
            return self._counted(direction, arguments, read)
        except Exception:  # noqa: BLE001 -- code that needs values has no count; nothing else follows from it
            return None

    def _counted(self, direction: Direction, arguments: Values, read: Sequence[bool]) -> Work:
        """Of meta tensors."""
        with torch.no_grad(), FlopCounterMode(display=False) as ahead:
            results = self._call(arguments)
        taken = [tensor for tensor, is_read in zip(tensors(arguments), read, strict=False) if is_read]
        if direction is Direction.FORWARD:
            return Work(flops=ahead.get_total_flops(), bytes=_bytes([*taken, *results]))
        grads = upstream(results, 0)
        with FlopCounterMode(display=False) as both:
            found = gradients(self._call, self._forward, arguments, grads)
        flops = both.get_total_flops() - ahead.get_total_flops()
        return Work(flops=flops, bytes=_bytes([*taken, *grads, *found]))


def reads(function: Function, arguments: Values) -> tuple[bool, ...]:
    """Of each tensor among the arguments, whether the results depend on it at every place that is tried.

    Whole numbers are all alike meanwhile: a table that they look up is then seen to be read in part.
    """
    given = tensors(arguments)
    alike = [_alike(tensor) for tensor in given]
    before = function(_refilled(arguments, alike))

    def depends(at: int, changed: Tensor) -> bool:
        after = _tried(function, _refilled(arguments, [*alike[:at], changed, *alike[at + 1 :]]))
        return after is None or not same(before, after)

    def is_read(at: int) -> bool:
        places = {round(part * (given[at].numel() - 1)) for part in PLACES} if given[at].numel() else set()
        return bool(places) and all(any(depends(at, one) for one in _changes(alike[at], given[at], i)) for i in places)

    return tuple(is_read(at) for at in range(len(given)))


def same(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether two calls gave the same results; what is not a number is like itself."""
    return len(ones) == len(others) and all(_equal(one, other) for one, other in zip(ones, others, strict=True))


def _equal(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and bool(((one == two) | ((one != one) & (two != two))).all())


def _tried(function: Function, arguments: Values) -> tuple[Tensor, ...] | None:
    """The results, or nothing where the change is refused, which only code that reads it can do."""
    try:
        return function(arguments)
    except Exception:  # noqa: BLE001 -- a foreign function may refuse by any exception
        return None


def _changes(tensor: Tensor, given: Tensor, at: int) -> Iterator[Tensor]:
    """The tensor with one element of another value: no number, of the other sign, opposite, or another one given."""
    present = tensor.flatten()[at]
    if tensor.is_floating_point():
        others = [torch.full_like(present, nan), (-computable(present)).to(present.dtype)]
    elif tensor.dtype is torch.bool:
        others = [~present]
    else:
        others = [other for other in (given.min(), given.max()) if other != present]
    for other in others:
        changed = tensor.flatten().clone()
        changed[at] = other
        yield changed.reshape(tensor.shape)


def _alike(tensor: Tensor) -> Tensor:
    whole = not tensor.is_floating_point() and tensor.dtype is not torch.bool and tensor.numel()
    return torch.full_like(tensor, int(tensor.flatten()[0])) if whole else tensor


def _refilled(arguments: Values, changed: Sequence[Tensor]) -> Values:
    """The arguments with other tensors in the places of theirs."""
    rest = iter(changed)
    return mapped(arguments, lambda _: next(rest))


def _weightless(arguments: Values) -> Values:
    return mapped(arguments, lambda tensor: tensor.to("meta"))


def _bytes(moved: Sequence[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in moved)
