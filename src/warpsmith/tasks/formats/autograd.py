"""What an autograd function passes to its `backward_fn`, seen by giving it one that records. Knows no task format."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class CapturedArguments(BaseException):
    """Carries the arguments of a recorded call out of code that may catch every `Exception`."""

    def __init__(self, arguments: tuple[Any, ...], keywords: tuple[str, ...]) -> None:
        super().__init__()
        self.arguments = arguments
        self.keywords = keywords


def recorder(*arguments: Any, **keywords: Any) -> Any:
    """A function that keeps what it is called with and returns nothing, ever."""
    raise CapturedArguments((*arguments, *keywords.values()), tuple(keywords))


def recorded(call: Callable[[], Any]) -> CapturedArguments | None:
    """What the recorder was called with inside `call`; nothing when it never was."""
    try:
        call()
    except CapturedArguments as caught:
        return caught
    return None


class Context:
    """The stand-in for autograd's context: keeps what forward saves, takes any attribute."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.is_floating_point() for a in arguments)

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep the tensors themselves, so that they can be recognised."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Any) -> None:
        """Means nothing here."""

    def mark_dirty(self, *_: Any) -> None:
        """Means nothing here."""

    def set_materialize_grads(self, _: bool) -> None:
        """Means nothing here."""


def forward_context(function: Any, arguments: Sequence[Any]) -> Context:
    """The context after forward ran, in either of the two spellings torch knows."""
    context = Context(arguments)
    with torch.no_grad():
        if function.setup_context is not torch.autograd.Function.setup_context:
            function.setup_context(context, tuple(arguments), function.forward(*arguments))
        else:
            function.forward(context, *arguments)
    return context


def backward_call(function: Any, arguments: Sequence[Any], grads: Sequence[Tensor]) -> CapturedArguments | None:
    """What `backward` passes to `backward_fn` after a forward on these arguments."""
    context = forward_context(function, arguments)
    function.backward_fn = staticmethod(recorder)
    with torch.no_grad():
        return recorded(lambda: function.backward(context, *grads))


def gradient_places(function: Any, arguments: Sequence[Any], grads: Sequence[Tensor]) -> list[int] | None:
    """For each result of `backward_fn`, the forward argument whose gradient it is; nothing when it cannot be told.

    Marked tensors are handed back in growing number until `backward` accepts them, and are looked for in its answer.
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
    function.backward_fn = staticmethod(lambda *_, **__: answer)
    try:
        with torch.no_grad():
            given = function.backward(forward_context(function, arguments), *grads)
    except (ValueError, TypeError, IndexError, RuntimeError):  # too few or too many to unpack: try another number
        return None
    returned = given if isinstance(given, tuple | list) else (given,)
    found = [next((i for i, part in enumerate(returned) if part is mark), -1) for mark in marks]
    return found if min(found) >= 0 and len(returned) <= len(arguments) else None


def written_names(text: str, called: str) -> list[str]:
    """The names in the first call of `….called(a, b)` in a file; empty when an argument is more than a name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == called:
            names = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
            return names if len(names) == len(node.args) and not node.keywords else []
    return []
