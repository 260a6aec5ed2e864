"""Observation of the call from `backward` to `backward_fn`."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class CapturedArguments(BaseException):
    """A signal that carries call arguments past `except Exception`."""

    def __init__(self, arguments: tuple[Any, ...], keywords: tuple[str, ...]) -> None:
        super().__init__()
        self.arguments = arguments
        self.keywords = keywords


def raise_arguments(*arguments: Any, **keywords: Any) -> Any:
    """Raise CapturedArguments with all arguments."""
    raise CapturedArguments((*arguments, *keywords.values()), tuple(keywords))


def capture_arguments(call: Callable[[], Any]) -> CapturedArguments | None:
    """Return the arguments of the substitute's call inside `call`, or None."""
    try:
        call()
    except CapturedArguments as caught:
        return caught
    return None


class Context:
    """A substitute for autograd's context."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.is_floating_point() for a in arguments)

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep the tensors themselves, to recognize them later."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Any) -> None:
        """Ignore the tensors."""

    def mark_dirty(self, *_: Any) -> None:
        """Ignore the tensors."""

    def set_materialize_grads(self, _: bool) -> None:
        """Ignore the setting."""


def forward_context(function: Any, arguments: Sequence[Any]) -> Context:
    """Return the context after forward, in either form that torch accepts."""
    context = Context(arguments)
    with torch.no_grad():
        if function.setup_context is not torch.autograd.Function.setup_context:
            function.setup_context(context, tuple(arguments), function.forward(*arguments))
        else:
            function.forward(context, *arguments)
    return context


def backward_call(function: Any, arguments: Sequence[Any], grads: Sequence[Tensor]) -> CapturedArguments | None:
    """Return the arguments that `backward` passes to `backward_fn`, or None."""
    context = forward_context(function, arguments)
    # The substitute replaces the kernel, so its arguments become visible and nothing is computed.
    function.backward_fn = staticmethod(raise_arguments)
    with torch.no_grad():
        return capture_arguments(lambda: function.backward(context, *grads))


def gradient_places(function: Any, arguments: Sequence[Any], grads: Sequence[Tensor]) -> list[int] | None:
    """Return the forward argument of each gradient, or None if it stays unknown.

    Marked tensors are returned in growing number until `backward` accepts them, and are then found in its result.
    """
    for count in range(1, len(arguments) + 1):
        marks = [torch.zeros(()) for _ in range(count)]
        answers: list[Any] = [marks[0], (marks[0],)] if count == 1 else [tuple(marks)]
        for answer in answers:
            places = _places(function, arguments, grads, answer, marks)
            if places is not None:
                return places
    return None


def _places(
    function: Any, arguments: Sequence[Any], grads: Sequence[Tensor], answer: Any, marks: list[Tensor]
) -> list[int] | None:
    """Return the positions of the marked tensors in the result of `backward`, or None."""
    function.backward_fn = staticmethod(lambda *_, **__: answer)
    try:
        with torch.no_grad():
            given = function.backward(forward_context(function, arguments), *grads)
    except (ValueError, TypeError, IndexError, RuntimeError):  # too few or too many to unpack: try another number
        return None
    returned = given if isinstance(given, tuple | list) else (given,)
    # By identity: a mark that `backward` moved keeps its object.
    found = [next((i for i, part in enumerate(returned) if part is mark), -1) for mark in marks]
    return found if min(found) >= 0 and len(returned) <= len(arguments) else None


def written_names(text: str, called: str) -> list[str]:
    """Return the argument names of the first call `….called(a, b)`, or nothing for expressions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == called:
            names = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
            return names if len(names) == len(node.args) and not node.keywords else []
    return []
