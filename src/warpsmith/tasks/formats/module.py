"""Modules and functions as tasks."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from warpsmith.base import UsageError
from warpsmith.records import Case, Dtype, Group, Role, Signature
from warpsmith.tasks.formats.codefile import SALT, seed
from warpsmith.tasks.inputs import Values
from warpsmith.tasks.inspection import (
    BoundArgument,
    TaskHead,
    default_backward,
    override_names,
    smaller_axes,
    smoke_case,
    with_valid_names,
)
from warpsmith.tasks.inspection.bound import bind_argument

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Inputs:
    """Source of example inputs: a function of sizes, the sizes, and the variable ones."""

    make: Callable[[Sizes], Sequence[Any]]
    sizes: Sizes
    free: frozenset[str]


class ModuleSource:
    """A module or function with example inputs."""

    def __init__(self, head: TaskHead, code: ModuleType, inputs: Inputs, build: Callable[[], Any]) -> None:
        self.head = head
        self._code = code
        self._inputs = inputs
        self._build = build
        self._target: Any = None
        self._states: tuple[str, ...] = ()
        self._taken = 0

    def cases(self) -> tuple[Case, ...]:
        """Return the given sizes for search and timing, and smaller ones for the virtual GPU."""
        given = Case(name="given", group=Group.DEV, axes=self._inputs.sizes, dtype=Dtype.FLOAT32)
        options = [
            given.model_copy(update={"axes": axes}) for axes in smaller_axes(self._inputs.sizes, self._inputs.free)
        ]
        timing = given.model_copy(update={"name": "timing", "group": Group.TIMING})
        return smoke_case(self, given, options), given, timing

    def bind(self, case: Case, seed_: int) -> tuple[BoundArgument, ...]:
        """Return a new module's and new inputs' values at a case's sizes."""
        sizes = {name: size for name, size in case.axes.items() if name in self._inputs.sizes}
        with override_names(
            vars(self._code), {name: size for name, size in sizes.items() if hasattr(self._code, name)}
        ):
            # Parameters and inputs are seeded apart, so that a change of the inputs does not change the weights.
            seed(seed_ ^ SALT)
            self._target = self._build()
            states = _states(self._target) if isinstance(self._target, nn.Module) else []
            seed(seed_)
            given = self._inputs.make(sizes)
        where = str(self.head.path)
        if not given:
            raise UsageError(f"{where}: its inputs are empty; a task takes at least one tensor. Return it in a list.")
        self._states, self._taken = tuple(name for name, _, _ in states), len(given)
        parts = [
            bind_argument(name, value, Role.INPUT, where) for name, value in zip(self._names(given), given, strict=True)
        ]
        return with_valid_names([*parts, *(bind_argument(name, value, role, where) for name, value, role in states)])

    def call(self, arguments: Values) -> Any:
        """Call the module with its state as arguments."""
        inputs, states = arguments[: self._taken], arguments[self._taken :]
        if not isinstance(self._target, nn.Module):
            return self._target(*inputs)
        # functional_call runs the module with the caller's tensors instead of its own.
        state = {name: value for name, value in zip(self._states, states, strict=True) if isinstance(value, Tensor)}
        return functional_call(self._target, state, tuple(inputs))

    def backward(self, forward: Signature, smallest: Sequence[BoundArgument]) -> Signature:
        """Return the signature: upstream gradients, then forward's arguments."""
        return default_backward(forward, smallest)

    def backward_values(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return upstream gradients, then forward's arguments."""
        return (*grads, *arguments)

    def _names(self, given: Sequence[Any]) -> list[str]:
        """Return the names of the inputs."""
        named = parameters(self._target)[: len(given)]
        return named + [f"input_{i}" for i in range(len(named), len(given))]


def _states(module: nn.Module) -> list[tuple[str, Tensor, Role]]:
    """Return parameters and buffers in torch's order."""
    for owner in module.modules():
        # A plain tensor attribute is state too; as a buffer it becomes an argument of the kernel.
        for name in [key for key, value in vars(owner).items() if isinstance(value, Tensor)]:
            owner.register_buffer(name, vars(owner).pop(name).detach(), persistent=False)
    parameters = [(n, p, Role.PARAMETER if p.requires_grad else Role.FIXED) for n, p in module.named_parameters()]
    return [*parameters, *((name, value, Role.FIXED) for name, value in module.named_buffers())]


def parameters(thing: Any) -> list[str]:
    """Return the argument names of a module or function, as far as Python can read them."""
    is_class = isinstance(thing, type) and issubclass(thing, nn.Module)
    function = thing.forward if is_class or isinstance(thing, nn.Module) else thing
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin: torch.relu has no signature to read
        return []
    return [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD][is_class:]  # without a class's self


def globals_read(code: ModuleType, function: Callable[..., Any]) -> dict[str, int]:
    """Return the positive integers of the file that a function reads."""
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    numbers = {name: getattr(code, name, None) for name in names}
    return {name: n for name, n in numbers.items() if isinstance(n, int) and not isinstance(n, bool) and n > 0}


def to_sequence(result: Any) -> Sequence[Any]:
    """Return inputs as a sequence; a single tensor is one input."""
    return tuple(result) if isinstance(result, list | tuple) else (result,)
