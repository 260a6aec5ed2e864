"""What is known of a draw from its words alone: the terms of its sums, and whether it is easy. Knows no torch."""

from dataclasses import dataclass
from math import inf

from warpsmith.records import Direction, Dtype, Family, Group, Origin, Role, Task, Trial, Twist
from warpsmith.tasks.inputs import FAMILIES

# By norm, of normal inputs: a rounding to the element type is off by 0.43 roundoffs, the shares of attention and what
# follows from them by 0.8; sums of 8-bit integers by more than 2 (tests/evaluation/check/test_terms.py).
EASY_FACTOR, EASY_ROUNDOFFS = 2.0, 1.25  # times torch's own error, and of the element type
EASY = {Dtype.BFLOAT16: EASY_ROUNDOFFS * 2.0**-8, Dtype.FLOAT16: EASY_ROUNDOFFS * 2.0**-11}
# Roundings to the element type that a slice's bound has room for, as the root of the sum of their squares: one more
# than the result's own, in attention those of the shares, and those of the layers between (benchmarks/slices.py).
ROUNDINGS, BETWEEN_ROUNDINGS, LAYER_ROUNDINGS = 1.5, 2.2, 3.0
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


# Families whose sums have terms of their own size and sign, so that roundings are independent of each other.
PLAIN = (Family.NORMAL, Family.UNIFORM, Family.BLOCK_ONE_HOT)


@dataclass(frozen=True)
class SliceRule:
    """How closely the slices of a result are looked at."""

    roundings: float = 0.0  # to the element type that count, as a multiple of one; 0: the task's own floors hold
    shared: bool = False  # whether the elements of a slice share sums, so that their errors may lean one way together

    @property
    def is_tight(self) -> bool:
        """Whether the bound is what roundings and plain sums make, without the task's floors."""
        return self.roundings > 0


def slice_rule(task: Task, direction: Direction, trial: Trial) -> SliceRule:
    """Return how closely the slices of a call's results are looked at.

    Tight where inputs are plain and the task sums something. A gradient from what forward saved has the rounding of
    that as well: of a 16-bit result, or of a float32 log-sum-exp of 100. Shares of attention may be rounded before
    values are weighed by them, and so may each layer's results in a task of several layers.
    """
    if task.origin is not Origin.SUITE or task.tolerance.reduction == ALONE:
        return SliceRule()
    if trial.family not in PLAIN or trial.twist not in EVEN:
        return SliceRule()
    if any(argument.role is Role.SAVED for argument in task.signature(direction).arguments):
        return SliceRule()
    narrow, matrices = trial.case.dtype in EASY, task.multiplies_matrices
    if not matrices:
        return SliceRule(ROUNDINGS, shared=narrow)
    trained = any(argument.role is Role.PARAMETER for argument in task.forward.arguments)
    keeps = any(argument.role is Role.SAVED for argument in (task.backward.arguments if task.backward else ()))
    return SliceRule(ROUNDINGS if not keeps else LAYER_ROUNDINGS if trained else BETWEEN_ROUNDINGS)
