"""The program of a task: arguments, torch function, gradients, reference.

A task of any format becomes a `TaskProgram`; no later package depends on the format.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from warpsmith.records import ArgumentKind, Direction, Role, Signature, Task, Trial
from warpsmith.tasks.inputs import (
    RandomWords,
    Value,
    Values,
    computable,
    dtype_of,
    mapped,
    outputs,
    scattered,
    tensors,
    twisted,
    widened,
)
from warpsmith.tasks.reference import signs

Forward: TypeAlias = Callable[[Values], tuple[Tensor, ...]]

DIFFERENTIABLE = (Role.INPUT, Role.PARAMETER)
# How large upstream gradients are, so that no kernel can count on it: past what float16 holds at either end, as those
# of a scaled loss or of a mean over millions are. Float16 itself has no exponents to spare.
SIZES = (2.0**-30, 1.0, 2.0**20)
SIDES = (0, 1, -1)  # of zero on which they lie; 0: on both


class TaskProgram(Protocol):
    """A task that can run: `forward` is plain torch, `saved` are the tensors that torch keeps for backward."""

    @property
    def task(self) -> Task: ...

    def arguments(self, trial: Trial) -> Values:
        """Return forward's arguments on the default device, in the element type of the test input."""
        ...

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """Return the results of the reference function at the precision of the arguments."""
        ...

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return backward's arguments for these forward arguments and upstream gradients."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A program whose forward makes choices that rounding may flip: ReLU's gate, the place of a maximum.

    Backward receives these choices among the saved tensors, and its float64 reference must follow them.
    """

    def chosen(self, arguments: Values, kept: Values) -> tuple[Tensor, ...]:
        """Return forward's results with the choices of the saved tensors."""
        ...


@runtime_checkable
class TwoSided(Protocol):
    """A program whose backward pass is another file with arguments of its own."""

    def side(self, direction: Direction) -> TaskProgram:
        """Return the program of one direction."""
        ...


@dataclass(frozen=True)
class Problem:
    """A call's arguments, native results and float64 reference."""

    arguments: Values
    native: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]
    sizes: Callable[[], tuple[Tensor, ...] | None] = lambda: None  # of the terms of each result, where they are known


def problem(program: TaskProgram, direction: Direction, trial: Trial, device: str = "cpu") -> Problem:
    """Return the call of a test input in one direction with its reference, computed on the device."""
    one = sided(program, direction)
    # The default device decides where a task's own code creates tensors.
    with torch.device(device):
        drawn = mapped(one.arguments(trial), lambda tensor: tensor.to(device))
    found = solved(one, direction, twisted(drawn, one.task.forward, trial), trial.seed)
    # A perturbation may leave the range of the element type; then the unperturbed input is used.
    if not trial.twist.enlarges or _is_held(found):
        return found
    return solved(one, direction, drawn, trial.seed)


def _is_held(one: Problem) -> bool:
    """Return whether the element types can hold the reference and torch's own results."""
    pairs = zip(one.native, one.expected, strict=True)
    return all(_finite(native) and _finite(truth.to(native.dtype)) for native, truth in pairs)


def _finite(tensor: Tensor) -> bool:
    return bool(computable(tensor).isfinite().all())


def moved(one: Problem, device: str) -> Problem:
    """Return the problem with its tensors on another device."""
    native, expected = (tuple(tensor.to(device) for tensor in part) for part in (one.native, one.expected))
    arguments = mapped(one.arguments, lambda tensor: tensor.to(device))
    return replace(one, arguments=arguments, native=native, expected=expected)


def sided(program: TaskProgram, direction: Direction) -> TaskProgram:
    """Return the program of a direction."""
    return program.side(direction) if isinstance(program, TwoSided) else program


def solved(program: TaskProgram, direction: Direction, arguments: Values, seed: int) -> Problem:
    """Return a call's problem; `seed` draws upstream gradients."""
    if direction is Direction.FORWARD:
        terms = partial(signs.of_product, program.forward, program.task.forward, arguments, seed)
        return Problem(arguments, program.forward(arguments), program.forward(widened(arguments)), terms)
    grads = upstream(program.forward(arguments), seed)
    signature = program.task.forward
    given = program.backward_arguments(arguments, grads)
    # The saved tensors come last among backward's arguments.
    kept = given[len(grads) + len(arguments) :]
    settled = partial(program.chosen, kept=kept) if isinstance(program, Choosing) else program.forward
    order = gradient_order(signature, arguments, program.task.signature(direction).results)
    native = gradients(program.forward, signature, arguments, grads)

    def truth(upstream: Sequence[Tensor]) -> tuple[Tensor, ...]:
        # The reference starts from the same rounded gradients as the kernel, widened to float64.
        found = gradients(settled, signature, widened(arguments), [grad.double() for grad in upstream])
        return tuple(found[i] for i in order)

    sizes = partial(signs.of_linear, truth, grads, seed)
    return Problem(given, tuple(native[i] for i in order), truth(grads), sizes)


def upstream(results: Sequence[Tensor], seed: int) -> tuple[Tensor, ...]:
    """Draw upstream gradients for the results: uniform, of a drawn size, with all bits of the element type.

    They lie around zero or on one side of it: a kernel could leave out a sum of gradients around zero, which almost
    vanishes.
    """
    # Constants keep these draws apart from the inputs of the same seed.
    words, drawn = RandomWords(seed ^ 0x5EED), scattered(seed ^ 0x512E)
    size, side = SIZES[drawn % len(SIZES)], SIDES[drawn // len(SIZES) % len(SIDES)]

    def one(result: Tensor) -> Tensor:
        steps = round(2 / torch.finfo(result.dtype).eps)  # from 0 to 1: each is a number of the element type
        narrow = torch.finfo(result.dtype).max < max(SIZES)  # where long sums of one sign overflow
        most, sign = (1.0, 0) if narrow else (size, side)
        with torch.device(result.device):
            whole = words.take(result.numel()) % (2 * steps) - steps
            whole = sign * whole.abs() if sign else whole
            return (whole.double() / steps * most).reshape(result.shape).to(result)

    return tuple(one(result) for result in results)


def differentiable(signature: Signature, arguments: Values) -> list[Tensor]:
    """Return the tensors among forward's arguments that have a gradient, in order."""
    chosen = [value for spec, value in zip(signature.arguments, arguments, strict=True) if spec.role in DIFFERENTIABLE]
    return [tensor for tensor in tensors(chosen) if tensor.is_floating_point()]


def gradient_names(signature: Signature, arguments: Values) -> list[str]:
    """Return the name of the gradient of each of these tensors; the parts of a tuple are numbered."""
    names: list[str] = []
    for spec, value in zip(signature.arguments, arguments, strict=True):
        if spec.role in DIFFERENTIABLE:
            parts = tensors([value])
            labels = [f"_{i}" for i in range(len(parts))] if spec.kind is ArgumentKind.TENSORS else [""] * len(parts)
            pairs = zip(labels, parts, strict=True)
            names += [f"grad_{spec.name}{label}" for label, part in pairs if part.is_floating_point()]
    return names


def gradient_order(signature: Signature, arguments: Values, results: Sequence[str]) -> list[int]:
    """Return the place of each result of backward among the gradients; results that this call lacks are left out."""
    names = gradient_names(signature, arguments)
    wanted = [f"{name}_{i}" if name not in names else name for name in results for i in range(len(names))]
    return [names.index(name) for name in dict.fromkeys(wanted) if name in names]


def gradients(forward: Forward, signature: Signature, arguments: Values, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradients of a reference function at the precision of the arguments."""
    fresh = leaves(signature, arguments)
    wanted = [leaf for leaf in differentiable(signature, fresh) if leaf.requires_grad]
    with torch.enable_grad():
        results = forward(fresh)
        # An unused argument has no gradient in autograd; a kernel returns zeros for it.
        found = torch.autograd.grad(results, wanted, list(grads), allow_unused=True)
    return tuple(torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, wanted, strict=True))


def leaves(signature: Signature, arguments: Values) -> Values:
    """Return the arguments with differentiable tensors as new leaves of a graph."""

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
    """Return the arguments. Raise TypeError for a value that does not fit the signature."""
    if len(arguments) != len(signature.arguments):
        raise TypeError(f"inputs gave {len(arguments)} values; forward takes {len(signature.arguments)}")
    for spec, value in zip(signature.arguments, arguments, strict=True):
        if not isinstance(value, FITS[spec.kind]):
            raise TypeError(f"inputs gave {type(value).__name__} for '{spec.name}', which is a {spec.kind}")
        for tensor in tensors([value]):
            dtype_of(tensor)  # one that no kernel can take is refused here
    return tuple(arguments)


FITS: dict[ArgumentKind, tuple[type, ...]] = {
    ArgumentKind.TENSOR: (Tensor,),
    ArgumentKind.OPTIONAL_TENSOR: (Tensor, type(None)),
    ArgumentKind.TENSORS: (tuple,),
    ArgumentKind.FLOAT: (float, int),
    ArgumentKind.INT: (int,),
    ArgumentKind.BOOL: (bool,),
    ArgumentKind.INTS: (list,),
}

__all__ = [
    "Choosing",
    "Problem",
    "TaskProgram",
    "TwoSided",
    "checked",
    "differentiable",
    "gradient_names",
    "gradients",
    "leaves",
    "moved",
    "outputs",
    "problem",
    "sided",
    "solved",
    "upstream",
]
