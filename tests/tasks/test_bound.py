"""Arguments as foreign code makes them."""

from typing import Any

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.records import ArgumentKind, Role
from warpsmith.tasks.inspection.bound import bind_argument, merge_arguments, with_valid_names


@pytest.mark.parametrize(
    ("value", "kind", "role"),
    [
        (torch.zeros(2), ArgumentKind.TENSOR, Role.INPUT),
        (torch.zeros(2, dtype=torch.int64), ArgumentKind.TENSOR, Role.FIXED),
        ([torch.zeros(2), torch.zeros(1)], ArgumentKind.TENSORS, Role.INPUT),
        (None, ArgumentKind.OPTIONAL_TENSOR, Role.INPUT),
        (True, ArgumentKind.BOOL, Role.CONSTANT),
        (3, ArgumentKind.INT, Role.CONSTANT),
        (0.5, ArgumentKind.FLOAT, Role.CONSTANT),
        (torch.Size([2, 3]), ArgumentKind.INTS, Role.CONSTANT),
    ],
)
def test_kind_and_role_follow_from_the_value(value: Any, kind: ArgumentKind, role: Role) -> None:
    found = bind_argument("x", value, Role.INPUT, "file.py")
    assert (found.kind, found.role) == (kind, role)


def test_an_annotation_makes_a_whole_number_a_float() -> None:
    found = bind_argument("eps", 1, Role.INPUT, "file.py", note="float")
    assert found.kind is ArgumentKind.FLOAT
    assert isinstance(found.value, float)


@pytest.mark.parametrize("value", ["sum", {"a": 1}, torch.zeros(2, dtype=torch.complex64), [1, 2.5]])
def test_what_a_kernel_cannot_take_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match=r"file\.py: argument 'mode'"):
        bind_argument("mode", value, Role.INPUT, "file.py")


def test_absent_in_one_case_is_optional_in_all() -> None:
    there = with_valid_names([bind_argument("bias", torch.zeros(2), Role.PARAMETER, "")])
    absent = with_valid_names([bind_argument("bias", None, Role.PARAMETER, "")])
    (argument,) = merge_arguments({"a": absent, "b": there}, "file.py")
    assert (argument.kind, argument.role) == (ArgumentKind.OPTIONAL_TENSOR, Role.PARAMETER)


def test_kinds_that_no_signature_can_hold_are_refused() -> None:
    one, many = (
        with_valid_names([bind_argument("stride", 2, Role.INPUT, "")]),
        with_valid_names([bind_argument("stride", (2, 2), Role.INPUT, "")]),
    )
    with pytest.raises(UsageError, match="'stride' is int in case 'a', ints in case 'b'"):
        merge_arguments({"a": one, "b": many}, "file.py")


def test_a_different_number_of_arguments_is_refused() -> None:
    one = with_valid_names([bind_argument("x", torch.zeros(1), Role.INPUT, "")])
    with pytest.raises(UsageError, match="passes 1 arguments and case 'b' 2"):
        merge_arguments({"a": one, "b": one + one}, "file.py")
