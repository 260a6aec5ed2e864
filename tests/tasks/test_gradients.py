"""The names and the order of gradients."""

import torch

from warpsmith.records import Argument, ArgumentKind, Role, Signature
from warpsmith.tasks.reference.program import gradient_names, gradient_order

SIGNATURE = Signature(
    arguments=(
        Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),
        Argument(name="parts", kind=ArgumentKind.TENSORS, role=Role.INPUT),
        Argument(name="index", kind=ArgumentKind.TENSOR, role=Role.FIXED),
        Argument(name="bias", kind=ArgumentKind.OPTIONAL_TENSOR, role=Role.PARAMETER),
    ),
    results=("out",),
)
ARGUMENTS = (torch.ones(2), (torch.ones(1), torch.ones(3)), torch.ones(1, dtype=torch.int64), None)


def test_parts_are_numbered_and_what_is_absent_or_fixed_has_none() -> None:
    assert gradient_names(SIGNATURE, ARGUMENTS) == ["grad_x", "grad_parts_0", "grad_parts_1"]


def test_results_choose_and_order_them() -> None:
    assert gradient_order(SIGNATURE, ARGUMENTS, ("grad_parts_1", "grad_x")) == [2, 0]
    assert gradient_order(SIGNATURE, ARGUMENTS, ("grad_x", "grad_parts", "grad_bias")) == [0, 1, 2]
