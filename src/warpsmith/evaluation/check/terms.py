"""What is known of a draw from its words alone: the terms of its sums, and whether it is easy. Knows no torch."""

from math import inf

from warpsmith.records import Direction, Dtype, Family, Group, Origin, Role, Task, Trial, Twist
from warpsmith.tasks.inputs import FAMILIES

# By norm, of normal inputs: a rounding to the element type is off by 0.43 roundoffs, the shares of attention and what
# follows from them by 0.8; sums of 8-bit integers by more than 2 (tests/evaluation/check/test_terms.py).
EASY_FACTOR, EASY_ROUNDOFFS = 2.0, 1.25  # times torch's own error, and of the element type
EASY = {Dtype.BFLOAT16: EASY_ROUNDOFFS * 2.0**-8, Dtype.FLOAT16: EASY_ROUNDOFFS * 2.0**-11}
ALONE = "1"  # terms of a result that is no sum
EVEN = (Twist.NONE, Twist.SCALED)  # what leaves inputs normal
EASY_PRODUCT = 3e-6  # of float32: two bfloat16 numbers for one are off by 4e-6


def equal_terms(task: Task, trial: Trial) -> bool:
    """Whether most terms of a sum may be equal, so that each addition rounds the same way."""
    row = FAMILIES[trial.family]
    return row.equal_terms or (row.equal_alone and not task.forward.is_product)


def lift(trial: Trial) -> float:
    """How much larger the terms of a sum may be than what is left of them when their mean is taken away."""
    return FAMILIES[trial.family].offset


def easy(task: Task, direction: Direction, trial: Trial) -> float:
    """The share of a result's norm that an honest kernel is never off by: what a task allows beyond is for hard draws.

    Endless where inputs are not normal ones; where nothing is summed, and a kernel may round at every step; in shapes
    that are drawn, where a norm may be of two roundings; and in float32, where a transform such as Winograd's is off by
    7e-6. Products of inputs alone have no such transform: what attention allows beyond is for scores that are large.
    """
    if task.origin is not Origin.SUITE or task.tolerance.reduction == ALONE or trial.case.group is Group.HELDOUT:
        return inf
    if trial.family is not Family.NORMAL or trial.twist not in EVEN:
        return inf
    trained = any(argument.role is Role.PARAMETER for argument in task.forward.arguments)
    alone = task.forward.pairs_inputs and not trained
    if trial.case.dtype is Dtype.FLOAT32 and direction is Direction.FORWARD and alone:
        return EASY_PRODUCT
    return EASY.get(trial.case.dtype, inf)
