"""Arguments of a foreign call with name, role and kind, and the signature they form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from warpsmith.base import UsageError
from warpsmith.records import Argument, ArgumentKind, Dtype, Role
from warpsmith.tasks.formats import identifiers
from warpsmith.tasks.inputs import Value, Values, tensors

NUMBERS = frozenset({ArgumentKind.FLOAT, ArgumentKind.INT, ArgumentKind.BOOL, ArgumentKind.INTS})


@dataclass(frozen=True)
class BoundArgument:
    """One argument of a call."""

    name: str
    value: Value
    role: Role
    kind: ArgumentKind


def bind_argument(name: str, value: Any, role: Role, where: str, note: str = "") -> BoundArgument:
    """Return an argument of a kind that kernels take; `note` is its annotation.

    Raise UsageError that names an argument of another kind.
    """
    plain, kind = _bind_plain(name, value, where)
    # An annotation tells float from int where the example value happens to be whole.
    if kind is ArgumentKind.INT and note == "float":
        plain, kind = float(value), ArgumentKind.FLOAT
    floating = any(tensor.is_floating_point() for tensor in tensors([plain]))
    fitting = Role.CONSTANT if kind in NUMBERS else role if floating or plain is None else Role.FIXED
    return BoundArgument(name, plain, fitting, kind)


def _bind_plain(name: str, value: Any, where: str) -> tuple[Value, ArgumentKind]:
    """Return a value and kind. Raise UsageError otherwise."""
    match value:
        case Tensor():
            return _check_tensor(name, value, where), ArgumentKind.TENSOR
        case None:
            return None, ArgumentKind.OPTIONAL_TENSOR
        # bool stands before int, since Python's bool is an int.
        case bool():
            return value, ArgumentKind.BOOL
        case int():
            return int(value), ArgumentKind.INT
        case float():
            return float(value), ArgumentKind.FLOAT
        case list() | tuple() if value and all(isinstance(part, Tensor) for part in value):
            return tuple(_check_tensor(name, part, where) for part in value), ArgumentKind.TENSORS
        case list() | tuple() if all(isinstance(part, int) and not isinstance(part, bool) for part in value):
            return [int(part) for part in value], ArgumentKind.INTS
    raise UsageError(
        f"{where}: argument '{name}' is a {type(value).__name__}; a kernel takes tensors, optional tensors, "
        "tuples of tensors, float, int, bool and lists of int."
    )


def _check_tensor(name: str, value: Tensor, where: str) -> Tensor:
    """Return the tensor. Raise UsageError for an unsupported one."""
    if value.layout is not torch.strided or str(value.dtype).removeprefix("torch.") not in tuple(Dtype):
        raise UsageError(
            f"{where}: argument '{name}' is a {value.dtype} tensor of layout {value.layout}; "
            f"a kernel takes dense tensors of {', '.join(Dtype)}."
        )
    return value.detach()


def with_valid_names(arguments: Sequence[BoundArgument]) -> tuple[BoundArgument, ...]:
    """Return the arguments with distinct names that C++ accepts."""
    names = identifiers(argument.name for argument in arguments)
    return tuple(replace(argument, name=name) for argument, name in zip(arguments, names, strict=True))


def argument_values(arguments: Sequence[BoundArgument]) -> Values:
    """Return the values alone."""
    return tuple(argument.value for argument in arguments)


def merge_arguments(cases: Mapping[str, Sequence[BoundArgument]], where: str) -> tuple[Argument, ...]:
    """Return the arguments that fit every case.

    An argument that some case lacks is optional; int in one case and float in another is float.
    """
    names = list(cases)
    first = cases[names[0]]
    for name in names[1:]:
        if len(cases[name]) != len(first):
            raise UsageError(
                f"{where}: case '{names[0]}' passes {len(first)} arguments and case '{name}' {len(cases[name])}; "
                "a kernel has one signature. Make a task of each."
            )
    columns = zip(*cases.values(), strict=True)
    return tuple(_merge_argument(column, names, where) for column in columns)


def _merge_argument(column: Sequence[BoundArgument], names: Sequence[str], where: str) -> Argument:
    """Return the argument that fits one column of cases."""
    kinds = {argument.kind for argument in column}
    there = next((argument for argument in column if argument.value is not None), column[0])
    for pair, both in MERGES.items():
        if kinds == pair:
            return Argument(name=there.name, kind=both, role=there.role)
    if len(kinds) > 1:
        seen = ", ".join(f"{argument.kind} in case '{name}'" for argument, name in zip(column, names, strict=True))
        raise UsageError(f"{where}: argument '{there.name}' is {seen}; a kernel has one signature.")
    return Argument(name=there.name, kind=there.kind, role=there.role)


MERGES: dict[frozenset[ArgumentKind], ArgumentKind] = {
    frozenset({ArgumentKind.TENSOR, ArgumentKind.OPTIONAL_TENSOR}): ArgumentKind.OPTIONAL_TENSOR,
    frozenset({ArgumentKind.INT, ArgumentKind.FLOAT}): ArgumentKind.FLOAT,
}
