"""What an autograd function passes on, seen by recording."""

from typing import Any

import torch

from warpsmith.tasks.formats.autograd import backward_call, gradient_places, written_names


class Swapped(torch.autograd.Function):
    backward_fn: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, eps: float) -> Any:
        ctx.save_for_backward(x, w)
        ctx.eps = eps
        return x * w + eps

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        grad_w, grad_x = Swapped.backward_fn(w, x, grad, ctx.eps)
        return grad_x, grad_w, None


class NewSpelling(torch.autograd.Function):
    backward_fn: Any = None

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved = ctx.saved_tensors
        return NewSpelling.backward_fn(saved, grad)


class Changing(torch.autograd.Function):
    backward_fn: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return Changing.backward_fn(grad) * 2


X, W, GRAD = torch.ones(2), torch.ones(2), torch.ones(2)


def test_arguments_come_in_the_order_they_are_passed() -> None:
    call = backward_call(Swapped, (X, W, 0.5), [GRAD])
    assert call is not None
    assert [part is known for part, known in zip(call.arguments, (W, X, GRAD), strict=False)] == [True] * 3
    assert call.arguments[3] == 0.5


def test_results_are_matched_with_what_they_are_gradients_of() -> None:
    assert gradient_places(Swapped, (X, W, 0.5), [GRAD]) == [1, 0]


def test_the_newer_spelling_and_a_tuple_of_saved_tensors() -> None:
    call = backward_call(NewSpelling, (X,), [GRAD])
    assert call is not None
    assert isinstance(call.arguments[0], tuple)
    assert gradient_places(NewSpelling, (X,), [GRAD]) == [0]


def test_results_that_are_changed_cannot_be_matched() -> None:
    assert gradient_places(Changing, (X,), [GRAD]) is None


def test_names_are_those_the_file_writes() -> None:
    assert written_names("g = F.backward_fn(grad, x, eps)", "backward_fn") == ["grad", "x", "eps"]
    assert written_names("g = F.backward_fn(grad, ctx.eps)", "backward_fn") == []
