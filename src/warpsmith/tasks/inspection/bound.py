"""Arguments as foreign code made them, each with its name, role and kind, and the signature they add up to."""

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


def bound(name: str, value: Any, role: Role, where: str, note: str = "") -> BoundArgument:
    """An argument of the kinds a kernel can take, or a `UsageError` naming it; `note` is its annotation, if any."""
    plain, kind = _plain(name, value, where)
    if kind is ArgumentKind.INT and note == "float":
        plain, kind = float(value), ArgumentKind.FLOAT
    floating = any(tensor.is_floating_point() for tensor in tensors([plain]))
    fitting = Role.CONSTANT if kind in NUMBERS else role if floating or plain is None else Role.FIXED
    return BoundArgument(name, plain, fitting, kind)


def _plain(name: str, value: Any, where: str) -> tuple[Value, ArgumentKind]:
    match value:
        case Tensor():
            return _tensor(name, value, where), ArgumentKind.TENSOR
        case None:
            return None, ArgumentKind.OPTIONAL_TENSOR
        case bool():
            return value, ArgumentKind.BOOL
        case int():
            return int(value), ArgumentKind.INT
        case float():
            return float(value), ArgumentKind.FLOAT
        case list() | tuple() if value and all(isinstance(part, Tensor) for part in value):
            return tuple(_tensor(name, part, where) for part in value), ArgumentKind.TENSORS
        case list() | tuple() if all(isinstance(part, int) and not isinstance(part, bool) for part in value):
            return [int(part) for part in value], ArgumentKind.INTS
    raise UsageError(
        f"{where}: argument '{name}' is a {type(value).__name__}; a kernel takes tensors, optional tensors, "
        "tuples of tensors, float, int, bool and lists of int."
    )


def _tensor(name: str, value: Tensor, where: str) -> Tensor:
    if value.layout is not torch.strided or str(value.dtype).removeprefix("torch.") not in tuple(Dtype):
        raise UsageError(
            f"{where}: argument '{name}' is a {value.dtype} tensor of layout {value.layout}; "
            f"a kernel takes dense tensors of {', '.join(Dtype)}."
        )
    return value.detach()


def renamed(arguments: Sequence[BoundArgument]) -> tuple[BoundArgument, ...]:
    """The arguments with names that C++ accepts and that differ from one another."""
    names = identifiers(argument.name for argument in arguments)
    return tuple(replace(argument, name=name) for argument, name in zip(arguments, names, strict=True))


def values(arguments: Sequence[BoundArgument]) -> Values:
    """The values alone."""
    return tuple(argument.value for argument in arguments)


def merged(cases: Mapping[str, Sequence[BoundArgument]], where: str) -> tuple[Argument, ...]:
    """The arguments that fit every case: absent in one and there in another is optional, int and float is float."""
    names = list(cases)
    first = cases[names[0]]
    for name in names[1:]:
        if len(cases[name]) != len(first):
            raise UsageError(
                f"{where}: case '{names[0]}' passes {len(first)} arguments and case '{name}' {len(cases[name])}; "
                "a kernel has one signature. Make a task of each."
            )
    columns = zip(*cases.values(), strict=True)
    return tuple(_column(column, names, where) for column in columns)


def _column(column: Sequence[BoundArgument], names: Sequence[str], where: str) -> Argument:
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
