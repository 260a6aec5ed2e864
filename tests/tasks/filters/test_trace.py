"""The trace: who reads whose result, in place and through views; what the graph's rules make of it."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.tasks.filters.fake import draw_samples, fake_program
from warpsmith.tasks.filters.graph import find_constant_results, find_dead_code, find_inefficiencies, find_repeated_work
from warpsmith.tasks.filters.report import FilterResult, Skip
from warpsmith.tasks.filters.trace import Trace, trace_calls


def traces(function: Callable[..., object], *names: str) -> tuple[Trace, Trace]:
    given = fake_program(function, *names)
    base, other = draw_samples(given)
    return trace_calls(given, base.arguments), trace_calls(given, other.arguments)


def found(answer: FilterResult | Skip) -> list[str]:
    assert isinstance(answer, FilterResult)
    return [measure.what.split()[0] for measure in answer.measures]


def test_calls_are_recorded_as_they_were_written() -> None:
    first, _ = traces(lambda x: F.softmax(x, dim=-1).sum(0) + 1)
    assert [call.name for call in first.calls] == ["softmax", "sum", "add"]
    assert all(call.line.startswith("test_trace.py:") for call in first.calls)


def test_asking_for_a_shape_is_no_use_of_a_value() -> None:
    def function(x: Tensor) -> Tensor:
        dropped = torch.exp(x)
        return x * dropped.shape[0]

    assert found(find_dead_code(traces(function)[0])) == ["exp"]


def test_a_value_that_leaves_torch_is_used() -> None:
    assert found(find_dead_code(traces(lambda x: x * torch.exp(x).sum().item())[0])) == []


def test_writing_through_a_view_is_seen() -> None:
    def function(x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[:, 0] = torch.exp(x[:, 0])
        out[:, 1:].copy_(torch.tanh(x[:, 1:]))
        return out

    assert found(find_dead_code(traces(function)[0])) == []


def test_a_work_space_given_with_out_is_seen() -> None:
    def function(x: Tensor) -> Tensor:
        space = torch.empty_like(x)
        torch.exp(x, out=space)
        return space * 2

    assert found(find_dead_code(traces(function)[0])) == []


def test_changing_an_argument_is_a_use() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        w.add_(1)
        return x * 2

    assert found(find_dead_code(traces(function, "x", "w")[0])) == []


def test_a_value_from_outside_makes_dead_code_unsure() -> None:
    outside = torch.ones(16)

    def function(x: Tensor) -> Tensor:
        torch.exp(x)
        return x + outside

    assert isinstance(find_dead_code(traces(function)[0]), Skip)


def test_the_same_call_after_a_change_in_place_is_no_repetition() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.clone()
        first = torch.exp(y)
        y.add_(1)
        return first + torch.exp(y)

    assert found(find_repeated_work(traces(function)[0])) == []


def test_other_settings_are_no_repetition() -> None:
    assert found(find_repeated_work(traces(lambda x: x.softmax(0) + x.softmax(1))[0])) == []
    assert found(find_repeated_work(traces(lambda x: x.softmax(1) + x.softmax(1))[0])) == ["softmax"]


def test_random_numbers_are_drawn_anew() -> None:
    assert found(find_repeated_work(traces(lambda x: F.dropout(x) + F.dropout(x))[0])) == []


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x.tanh() + x.sum(1, keepdim=True).softmax(1), ["softmax"]),
        (lambda x: x.tanh() + F.layer_norm(x, (16,)).mean(), ["mean"]),
        (lambda x: x + torch.zeros_like(x), []),
        (lambda x: x + (x * 0), ["mul"]),
        (lambda x: x * x.softmax(1), []),
    ],
)
def test_constant_results(function: Callable[[Tensor], Tensor], names: list[str]) -> None:
    assert found(find_constant_results(*traces(function))) == names


def test_two_ways_through_a_function_cannot_be_compared() -> None:
    turns = iter([torch.exp, torch.exp, torch.exp, torch.tanh])  # two draws, then two traces
    assert isinstance(find_constant_results(*traces(lambda x: next(turns)(x))), Skip)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x.t().t().tanh(), ["t"]),
        (lambda x: x.unsqueeze(0).squeeze(0).tanh(), ["squeeze"]),
        (lambda x: x.reshape(-1).reshape(8, 16).tanh(), ["reshape"]),
        (lambda x: (lambda turned: turned @ turned.t())(x.t()), []),
        (lambda x: x.double().float(), ["float"]),
        (lambda x: x.double().exp().float(), []),
        (lambda x: x.exp().abs(), ["abs"]),
        (lambda x: x.tanh().relu(), []),
        (lambda x: x.exp() / 1, ["div"]),
        (lambda x: x.exp().clone(), ["clone"]),
        (lambda x: x.contiguous().exp(), []),
    ],
)
def test_inefficiency(function: Callable[[Tensor], Tensor], names: list[str]) -> None:
    assert found(find_inefficiencies(*traces(function))) == names
