"""What is known of the terms that a task sums, from its signature and the draw. Knows no torch."""

from warpsmith.records import Family, Kind, Role, Signature, Task, Trial

PRODUCT_TENSORS = 2  # a product multiplies at least two tensors
EQUAL = (Family.SPARSE, Family.CONSTANT, Family.TIES, Family.TINY, Family.DENORMAL)


def is_product(signature: Signature) -> bool:
    """Whether forward can multiply tensors with each other: it takes two that a gradient flows to."""
    kinds = (Kind.TENSOR, Kind.OPTIONAL_TENSOR)
    roles = (Role.INPUT, Role.PARAMETER)
    open_ones = [one for one in signature.arguments if one.kind in kinds and one.role in roles]
    return len(open_ones) >= PRODUCT_TENSORS


def equal_terms(task: Task, trial: Trial) -> bool:
    """Whether most terms of a sum may be equal, so that each addition rounds the same way."""
    return trial.family in EQUAL or (trial.family is Family.ONE_HOT and not is_product(task.forward))
