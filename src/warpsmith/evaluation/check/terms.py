"""The properties of a test input that its bounds depend on. Imports no torch."""

from dataclasses import dataclass
from math import inf

from warpsmith.records import Direction, Dtype, Family, Group, Origin, Role, Task, Trial, Twist
from warpsmith.tasks.inputs import FAMILIES

# Errors by norm for normal inputs: a rounding to the element type 0.43 roundoffs, rounded shares of attention 0.8, sums
# of 8-bit integers more than 2 (tests/evaluation/check/test_terms.py).
EASY_FACTOR, EASY_ROUNDOFFS = 2.0, 1.25  # times torch's own error, and of the element type
EASY = {Dtype.BFLOAT16: EASY_ROUNDOFFS * 2.0**-8, Dtype.FLOAT16: EASY_ROUNDOFFS * 2.0**-11}
# Roundings to the element type that a slice's bound allows, as the root of the sum of their squares: one more than the
# result's own; in attention those of the shares; and those between layers (benchmarks/slices.py).
ROUNDINGS, BETWEEN_ROUNDINGS, LAYER_ROUNDINGS = 1.5, 2.2, 3.0
ALONE = "1"  # the reduction of a task without sums
EVEN = (Twist.NONE, Twist.SCALED)  # perturbations after which inputs are still normal
EASY_PRODUCT = 3e-6  # of float32; three products of bfloat16 halves have an error of 4e-6


def has_equal_terms(task: Task, trial: Trial) -> bool:
    """Return whether most terms of a sum may be equal.

    Each addition then rounds the same way.
    """
    row = FAMILIES[trial.family]
    return row.equal_terms or (row.equal_alone and not task.forward.is_product)


def offset_ratio(trial: Trial) -> float:
    """Return the ratio of terms to their deviation from the mean."""
    return FAMILIES[trial.family].offset


def normal_norm_limit(task: Task, direction: Direction, trial: Trial) -> float:
    """Return the share of a result's norm that the error of an honest kernel never exceeds for normal inputs.

    Infinite for other inputs; for tasks without sums, where a kernel may round at every step; for held-out shapes,
    where a norm may consist of two roundings; and for float32, where a transform such as Winograd's has an error of
    7e-6. Products of inputs alone (attention) have no such transform: their task's bound is wider for large scores.
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
    """The factors of the bound of slices for one test input."""

    roundings: float = 0.0  # to the element type that count, as a multiple of one; 0: the task's own floors hold
    shared: bool = False  # whether the elements of a slice share sums, so that their errors may lean one way together
    is_uneven: bool = False  # whether inputs differ so much in size that one slice may have most of the error

    @property
    def is_tight(self) -> bool:
        """Whether roundings and plain sums alone make the bound, without the task's own."""
        return self.roundings > 0


def slice_rule(task: Task, direction: Direction, trial: Trial) -> SliceRule:
    """Return the rule for the slices of a call's results.

    Tight for plain inputs of tasks that sum. Not tight for a gradient from results that forward saved: it inherits the
    rounding of a 16-bit result, or of a float32 log-sum-exp of 100. A kernel may round the shares of attention before
    it weighs values by them, and each layer's results in a task of several layers.
    """
    if trial.family not in PLAIN or trial.twist not in EVEN:
        return SliceRule(is_uneven=True)
    if task.origin is not Origin.SUITE or task.tolerance.reduction == ALONE:
        return SliceRule()
    if any(argument.role is Role.SAVED for argument in task.signature(direction).arguments):
        return SliceRule()
    narrow, matrices = trial.case.dtype in EASY, task.multiplies_matrices
    if not matrices:
        return SliceRule(ROUNDINGS, shared=narrow)
    trained = any(argument.role is Role.PARAMETER for argument in task.forward.arguments)
    keeps = any(argument.role is Role.SAVED for argument in (task.backward.arguments if task.backward else ()))
    return SliceRule(ROUNDINGS if not keeps else LAYER_ROUNDINGS if trained else BETWEEN_ROUNDINGS)
