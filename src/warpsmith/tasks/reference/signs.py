"""The sizes of a result's terms: the root of the sum of their squares.

A sum whose terms get random signs has this size on average, so some such sums tell it without anybody knowing the
terms. Where a result is near zero because its terms cancel, this is what its rounding errors are a share of.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from warpsmith.records import Role, Signature
from warpsmith.tasks.inputs import Values, mapped, widened

DRAWS = 8
STEP = 2.0**-20  # of a value: small enough that a function is straight, large enough for float64

Results = tuple[Tensor, ...]


def of_linear(function: Callable[[Sequence[Tensor]], Results], given: Sequence[Tensor], seed: int) -> Results:
    """Return the term sizes of a linear function."""
    return _sizes(lambda source: function([tensor * _signs(tensor, source) for tensor in given]), given[0].device, seed)


def of_product(function: Callable[[Values], Results], signature: Signature, given: Values, seed: int) -> Results | None:
    """Return the size of the terms of a product, or None if the task is no product.

    Only the parameters change a little, or the last tensor if there are none. A change of all arguments would measure
    the condition of the function, which excuses no error: exp(x) of a large x is no sum.
    """
    if not signature.is_product:
        return None
    roles = [argument.role for argument in signature.arguments]
    last = max(place for place, argument in enumerate(signature.arguments) if argument.multiplies)
    moved = [role is Role.PARAMETER if Role.PARAMETER in roles else place == last for place, role in enumerate(roles)]
    # In float64: the difference of such near values would keep three bits in float32.
    wide = widened(given)
    here = function(wide)

    def once(source: torch.Generator) -> Results:
        def little(one: Tensor) -> Tensor:
            return one * (1 + STEP * _signs(one, source)) if one.is_floating_point() else one

        there = function(
            tuple(mapped((value,), little)[0] if one else value for one, value in zip(moved, wide, strict=True))
        )
        # The difference quotient in float64: with a step of 2^-20, the result is accurate to about 20 bits.
        return tuple((far.double() - near.double()) / STEP for far, near in zip(there, here, strict=True))

    return _sizes(once, here[0].device, seed)


def _sizes(once: Callable[[torch.Generator], Results], device: torch.device, seed: int) -> Results:
    source = torch.Generator(device).manual_seed(seed)
    squares = [one.square() for one in once(source)]
    for _ in range(DRAWS - 1):  # one draw at a time: results may have half a thousand million elements
        for total, one in zip(squares, once(source), strict=True):
            total.addcmul_(one, one)
    # A division by zero in a function gives no size; 0 adds nothing to a bound.
    return tuple(total.div_(DRAWS).sqrt_().nan_to_num_(0.0, 0.0, 0.0) for total in squares)


def _signs(tensor: Tensor, source: torch.Generator) -> Tensor:
    return torch.randint(0, 2, tensor.shape, generator=source, device=tensor.device).mul_(2).sub_(1).to(tensor.dtype)
