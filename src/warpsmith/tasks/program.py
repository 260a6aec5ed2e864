"""The running side of a task: arguments for a trial, the torch function, its gradients, its float64 reference.

Whatever format a task was written in, it becomes a `Program`; nothing above this file knows the format.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from warpsmith.records import Direction, Kind, Role, Signature, Task, Trial
from warpsmith.tasks.values import Value, Values, outputs, tensors, widened

DIFFERENTIABLE = (Role.INPUT, Role.PARAMETER)


class Program(Protocol):
    """A task that can be run. `forward` is plain torch; `saved` is what torch would keep for backward."""

    @property
    def task(self) -> Task: ...

    def arguments(self, trial: Trial) -> Values:
        """Forward's arguments in the order of its signature, on the CPU, in the trial's element type."""
        ...

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """The reference function at whatever precision the arguments have."""
        ...

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Backward's arguments for these forward arguments and upstream gradients."""
        ...


@dataclass(frozen=True)
class Problem:
    """One call to be made: the arguments, what torch gives for it, and the float64 truth."""

    arguments: Values
    native: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]


def problem(program: Program, direction: Direction, trial: Trial) -> Problem:
    """The call a trial stands for in one direction, with its reference."""
    arguments = program.arguments(trial)
    if direction is Direction.FORWARD:
        native = program.forward(arguments)
        return Problem(arguments, native, program.forward(widened(arguments)))
    grads = upstream(program.forward(arguments), trial.seed)
    wide = [grad.double() for grad in grads]
    signature = program.task.forward
    native = gradients(program, signature, arguments, grads)
    expected = gradients(program, signature, widened(arguments), wide)
    return Problem(program.backward_arguments(arguments, grads), native, expected)


def upstream(results: Sequence[Tensor], seed: int) -> tuple[Tensor, ...]:
    """Random upstream gradients for the results, from the seed: uniform in [-1, 1), exact in every element type."""
    source = torch.Generator().manual_seed(seed ^ 0x5EED)
    return tuple((torch.randint(-128, 128, r.shape, generator=source).double() / 128).to(r.dtype) for r in results)


def differentiable(signature: Signature, arguments: Values) -> list[Tensor]:
    """The tensors among forward's arguments that a gradient flows to, in order."""
    chosen = [value for spec, value in zip(signature.arguments, arguments, strict=True) if spec.role in DIFFERENTIABLE]
    return [tensor for tensor in tensors(chosen) if tensor.is_floating_point()]


def gradients(program: Program, signature: Signature, arguments: Values, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """`autograd.grad` of the reference at the precision of the arguments."""
    fresh = _leaves(signature, arguments)
    leaves = [leaf for leaf in differentiable(signature, fresh) if leaf.requires_grad]
    with torch.enable_grad():
        results = program.forward(fresh)
        found = torch.autograd.grad(results, leaves, list(grads), allow_unused=True)
    return tuple(torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves, strict=True))


def _leaves(signature: Signature, arguments: Values) -> Values:
    def leaf(tensor: Tensor) -> Tensor:
        return tensor.detach().clone().requires_grad_(tensor.is_floating_point())

    def one(role: Role, value: Value) -> Value:
        if role not in DIFFERENTIABLE:
            return value
        if isinstance(value, Tensor):
            return leaf(value)
        return tuple(leaf(part) for part in value) if isinstance(value, tuple) else value

    return tuple(one(spec.role, value) for spec, value in zip(signature.arguments, arguments, strict=True))


def checked(signature: Signature, arguments: Sequence[Value]) -> Values:
    """The arguments, or a `TypeError` that says which one does not fit the signature."""
    if len(arguments) != len(signature.arguments):
        raise TypeError(f"inputs gave {len(arguments)} values; forward takes {len(signature.arguments)}")
    for spec, value in zip(signature.arguments, arguments, strict=True):
        if not isinstance(value, FITS[spec.kind]):
            raise TypeError(f"inputs gave {type(value).__name__} for '{spec.name}', which is a {spec.kind}")
    return tuple(arguments)


FITS: dict[Kind, tuple[type, ...]] = {
    Kind.TENSOR: (Tensor,),
    Kind.OPTIONAL_TENSOR: (Tensor, type(None)),
    Kind.TENSORS: (tuple,),
    Kind.FLOAT: (float, int),
    Kind.INT: (int,),
    Kind.BOOL: (bool,),
    Kind.INTS: (list,),
}

__all__ = ["Problem", "Program", "checked", "differentiable", "gradients", "outputs", "problem", "upstream"]
