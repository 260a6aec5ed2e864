"""What is known of the terms that a task sums, from its signature and the draw. Knows no torch."""

from warpsmith.records import Family, Task, Trial

EQUAL = (Family.SPARSE, Family.CONSTANT, Family.TIES, Family.TINY, Family.DENORMAL)


def equal_terms(task: Task, trial: Trial) -> bool:
    """Whether most terms of a sum may be equal, so that each addition rounds the same way."""
    return trial.family in EQUAL or (trial.family is Family.ONE_HOT and not task.forward.is_product)
