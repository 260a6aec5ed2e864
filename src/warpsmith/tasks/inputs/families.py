"""Input families, one row each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsmith.records import Dtype, Family, Task

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.tasks.inputs.draw import Draw

OFFSET = 4096.0  # deviations that a mean may be from zero, and at least three quarters of them where it is
VAST = (2.0**20, 2.0**-30)
LARGEST = 65504.0  # of float16
FEW = 8  # terms at most on which a sum lives


@dataclass(frozen=True)
class FamilyRow:
    """One input family: its sampler, the element types that hold it, and what checks and timing assume of it."""

    sample: "Callable[[Draw, tuple[int, ...]], Tensor]"  # float64 values of a shape, none of whose sizes is 0
    least_bytes: int = 1  # of the narrowest float that has the exponents and the fraction for it
    whole: bool = False  # whether whole numbers stand in for it
    equal_terms: bool = False  # whether most terms of a sum may be equal, so that all additions round the same way
    equal_alone: bool = False  # whether they are so in a sum that is no product
    offset: float = 0.0  # how many deviations the mean may be from zero
    large: bool = False  # whether inputs are large in shapes of any size

    def fits(self, dtype: Dtype) -> bool:
        """Return whether an element type can hold the family."""
        return dtype.bytes >= self.least_bytes if dtype.floating else self.whole


def _alternating(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    values = draw.normal(*shape).abs()
    # A view of the flat values, since the signs alternate over the whole tensor.
    values.view(-1)[1::2].neg_()
    return values


def _one_hot(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    width, rows = shape[-1] if shape else 1, shape[:-1]
    # One non-zero element per row, at a drawn place.
    place = draw.bits(width, *rows).unsqueeze(-1)
    value = draw.normal(*rows).unsqueeze(-1)
    return value.new_zeros(*rows, width).scatter_(-1, place, value).reshape(shape)


def _block_one_hot(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    """Draw values with short runs of non-zero terms."""
    if not shape:
        return draw.normal()
    axis = draw.axis(len(shape))
    size, lone = shape[axis], tuple(1 if place == axis else size for place, size in enumerate(shape))
    first, width = draw.bits(size, *lone), draw.bits(FEW, *lone) + 1
    place = (first.new_ones(size).cumsum(0) - 1).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    # Modulo the size, so a block may pass the end and go on at the start.
    return draw.normal(*shape) * ((place - first).remainder(size) < width)


def _near_overflow(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    # Half of float16's largest number, so that doubling stays finite and squaring does not.
    return (draw.uniform(*shape) * 0.25 + 0.25) * LARGEST * (1 - 2 * draw.bits(2, *shape).double())


def _vast(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    # Float16 ends at 2^16 and at 2^-24; a product of two such numbers is still far from float32's ends.
    # Which of both is never read here: an outline has no numbers.
    values, large = draw.normal(*shape), draw.bits(2, 1).double()
    return values * (large * VAST[0] + (1 - large) * VAST[1])


def _offset(draw: "Draw", shape: tuple[int, ...]) -> "Tensor":
    # One sign for the whole tensor: values around zero on average would have no offset.
    sign = 1 - 2 * draw.bits(2, 1).double()
    return draw.normal(*shape) + sign * OFFSET * (0.75 + 0.25 * draw.uniform(1))


FAMILIES: Mapping[Family, FamilyRow] = {
    Family.NORMAL: FamilyRow(lambda draw, shape: draw.normal(*shape), whole=True),
    Family.UNIFORM: FamilyRow(lambda draw, shape: draw.uniform(*shape)),
    Family.TINY: FamilyRow(lambda draw, shape: draw.normal(*shape) * 2.0**-13, least_bytes=2, equal_terms=True),
    Family.HUGE: FamilyRow(lambda draw, shape: draw.normal(*shape) * 2.0**10, least_bytes=2, large=True),
    Family.SPARSE: FamilyRow(lambda draw, shape: draw.normal(*shape) * (draw.bits(10, *shape) == 0), equal_terms=True),
    Family.CONSTANT: FamilyRow(lambda draw, shape: draw.normal(1).expand(shape).clone(), equal_terms=True),
    Family.SORTED: FamilyRow(lambda draw, shape: draw.normal(*shape).sort(dim=-1).values if shape else draw.normal()),
    Family.TIES: FamilyRow(lambda draw, shape: (draw.normal(*shape) * 2).round() / 2, equal_terms=True),
    # Half of the terms of a sum of exponentials are small: a long plain sum rounds each of them the same way.
    Family.ALTERNATING: FamilyRow(_alternating, equal_alone=True),
    Family.ONE_HOT: FamilyRow(_one_hot, equal_alone=True),
    Family.BLOCK_ONE_HOT: FamilyRow(_block_one_hot),
    Family.NEAR_OVERFLOW: FamilyRow(_near_overflow, least_bytes=2, large=True),
    Family.DENORMAL: FamilyRow(
        lambda draw, shape: (draw.bits(255, *shape) - 127).double() * draw.smallest, equal_terms=True
    ),
    Family.VAST: FamilyRow(_vast, least_bytes=4),
    Family.OFFSET: FamilyRow(_offset, least_bytes=4, offset=OFFSET),
}


def families_of(task: Task, dtype: Dtype) -> tuple[Family, ...]:
    """Return the families of a task's inputs that an element type can hold."""
    written = [family for case in task.cases for family in case.families]
    few = [Family.BLOCK_ONE_HOT] if task.multiplies_matrices else []
    return tuple(family for family in dict.fromkeys([*written, *few]) if FAMILIES[family].fits(dtype))
