"""The least work of a foreign task's call, found by running the task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import nan
from typing import TypeAlias

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from warpsmith.records import Direction, Signature, Work
from warpsmith.tasks.inputs import Values, computable, mapped, tensors
from warpsmith.tasks.inspection.bound import BoundArgument, argument_values
from warpsmith.tasks.inspection.source import Source, call_on_copies
from warpsmith.tasks.reference import gradients, upstream

Function: TypeAlias = Callable[[Values], tuple[Tensor, ...]]

# Where an argument is changed, as parts of it: both ends, and four that no stride and no triangle has in common.
PLACES = (0.0, 0.146, 0.382, 0.618, 0.854, 1.0)
ELEMENT_FLOPS = 16  # what an element of an argument takes, in operations of a product
MOST_FLOPS = 2e10  # of all calls that look for what is read: about a second on one core


class WorkEstimate:
    """The least work of a task's cases. `small` holds real arguments of its smallest case."""

    def __init__(self, source: Source, forward: Signature, small: Values) -> None:
        self._call: Function = partial(call_on_copies, source)
        self._forward = forward
        self._small = small

    def estimate_cases(self, direction: Direction, cases: Mapping[str, Sequence[BoundArgument]]) -> dict[str, Work]:
        """Return the work by case for cases that run on the meta device.

        Return nothing if the smallest case takes too long to try.
        """
        # The meta device counts operations without computing them.
        own = self._estimate_call(direction, _to_meta(self._small), ())
        # Two changed values at each place of each tensor.
        tries = 2 * len(PLACES) * len(tensors(self._small))
        if (
            own is None
            or tries * (own.flops + ELEMENT_FLOPS * sum(t.numel() for t in tensors(self._small))) > MOST_FLOPS
        ):
            return {}
        read = find_read_tensors(self._direction_function(direction), self._small)
        found = {
            name: self._estimate_call(direction, _to_meta(argument_values(bound)), read)
            for name, bound in cases.items()
        }
        return {name: work for name, work in found.items() if work}

    def _direction_function(self, direction: Direction) -> Function:
        """Return a direction as a function of forward's arguments."""
        if direction is Direction.FORWARD:
            return self._call
        return partial(gradients, self._call, self._forward, grads=upstream(self._call(self._small), 0))

    def _estimate_call(self, direction: Direction, arguments: Values, read: Sequence[bool]) -> Work | None:
        """Return the work of a call, or None if the code needs real values."""
        try:
            # Operators that read values (such as nonzero) raise on the meta device.
            return self._count_work(direction, arguments, read)
        except Exception:  # noqa: BLE001 -- code that needs values has no count; nothing else follows from it
            return None

    def _count_work(self, direction: Direction, arguments: Values, read: Sequence[bool]) -> Work:
        """Return the work of a call on meta tensors."""
        with torch.no_grad(), FlopCounterMode(display=False) as ahead:
            results = self._call(arguments)
        taken = [tensor for tensor, is_read in zip(tensors(arguments), read, strict=False) if is_read]
        if direction is Direction.FORWARD:
            return Work(flops=ahead.get_total_flops(), bytes=_count_bytes([*taken, *results]))
        grads = upstream(results, 0)
        with FlopCounterMode(display=False) as both:
            found = gradients(self._call, self._forward, arguments, grads)
        # The second mode counts forward and backward together.
        flops = both.get_total_flops() - ahead.get_total_flops()
        return Work(flops=flops, bytes=_count_bytes([*taken, *grads, *found]))


def find_read_tensors(function: Function, arguments: Values) -> tuple[bool, ...]:
    """Return for each tensor argument whether the results depend on every element tried.

    All integers are set equal meanwhile: a table that they index is then seen to be read in part.
    """
    given = tensors(arguments)
    alike = [_equalize_integers(tensor) for tensor in given]
    before = function(_replace_tensors(arguments, alike))

    def depends(at: int, changed: Tensor) -> bool:
        """Whether the results change with one tensor."""
        after = _try_call(function, _replace_tensors(arguments, [*alike[:at], changed, *alike[at + 1 :]]))
        return after is None or not have_equal_results(before, after)

    def is_read(at: int) -> bool:
        """Whether the results depend on all tried elements of a tensor."""
        # Rounded, so short tensors have fewer places; a set drops equal ones.
        places = {round(part * (given[at].numel() - 1)) for part in PLACES} if given[at].numel() else set()
        return bool(places) and all(
            any(depends(at, one) for one in _change_element(alike[at], given[at], i)) for i in places
        )

    return tuple(is_read(at) for at in range(len(given)))


def have_equal_results(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Return whether two calls gave equal results; NaN equals NaN."""
    return len(ones) == len(others) and all(_is_equal(one, other) for one, other in zip(ones, others, strict=True))


def _is_equal(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors are equal; NaN equals NaN."""
    # NaN compares unequal to itself, so places with NaN on both sides count as equal.
    return one.shape == two.shape and bool(((one == two) | ((one != one) & (two != two))).all())


def _try_call(function: Function, arguments: Values) -> tuple[Tensor, ...] | None:
    """Return the results, or None if the changed values are refused: only code that reads them refuses."""
    try:
        return function(arguments)
    except Exception:  # noqa: BLE001 -- a foreign function may refuse by any exception
        return None


def _change_element(tensor: Tensor, given: Tensor, at: int) -> Iterator[Tensor]:
    """Yield the tensor with one element changed: NaN, other sign, opposite, or a given value."""
    present = tensor.flatten()[at]
    if tensor.is_floating_point():
        # NaN spreads through most functions; the other sign shows where a comparison drops NaN.
        others = [torch.full_like(present, nan), (-computable(present)).to(present.dtype)]
    elif tensor.dtype is torch.bool:
        others = [~present]
    else:
        others = [other for other in (given.min(), given.max()) if other != present]
    for other in others:
        changed = tensor.flatten().clone()
        changed[at] = other
        yield changed.reshape(tensor.shape)


def _equalize_integers(tensor: Tensor) -> Tensor:
    """Return an integer tensor with all elements set to its first."""
    whole = not tensor.is_floating_point() and tensor.dtype is not torch.bool and tensor.numel()
    return torch.full_like(tensor, int(tensor.flatten()[0])) if whole else tensor


def _replace_tensors(arguments: Values, changed: Sequence[Tensor]) -> Values:
    """Return the arguments with other tensors in place of theirs."""
    rest = iter(changed)
    return mapped(arguments, lambda _: next(rest))


def _to_meta(arguments: Values) -> Values:
    """Return the arguments as meta tensors."""
    return mapped(arguments, lambda tensor: tensor.to("meta"))


def _count_bytes(moved: Sequence[Tensor]) -> int:
    """Return the bytes of all tensors."""
    return sum(tensor.nbytes for tensor in moved)
