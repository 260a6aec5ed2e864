"""What is known of the terms that a task sums, from its signature and the draw. Knows no torch."""

from warpsmith.records import OFFSET, Family, Task, Trial

EQUAL = (Family.SPARSE, Family.CONSTANT, Family.TIES, Family.TINY, Family.DENORMAL)


def equal_terms(task: Task, trial: Trial) -> bool:
    """Whether most terms of a sum may be equal, so that each addition rounds the same way."""
    return trial.family in EQUAL or (trial.family is Family.ONE_HOT and not task.forward.is_product)


def lift(trial: Trial) -> float:
    """How much larger the terms of a sum may be than what is left of them when their mean is taken away."""
    return OFFSET if trial.family is Family.OFFSET else 0.0
