"""Problems as bytes."""

import pytest
import torch
from torch import Tensor

from warpsmith.records import ArgumentKind
from warpsmith.tasks.host.wire import (
    HEADER_BYTES,
    LENGTH,
    ProblemHeader,
    TensorSlot,
    ValueSlot,
    decode,
    encode,
    same_signature,
)
from warpsmith.tasks.inputs.values import TORCH, Value
from warpsmith.tasks.reference.program import Problem

EMPTY = Problem((), (), ())


def back(value: Value) -> Value:
    return decode(encode(Problem((value,), (), ()))).arguments[0]


@pytest.mark.parametrize("dtype", TORCH.values(), ids=TORCH)
def test_every_element_type_comes_back(dtype: torch.dtype) -> None:
    given = torch.randint(0, 2, (3, 5)).to(dtype)
    found = back(given)
    assert isinstance(found, Tensor)
    assert found.dtype is dtype
    assert torch.equal(found.double(), given.double())


@pytest.mark.parametrize(
    "given",
    [
        torch.randn(4, 6).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(3, 1).expand(3, 7),
        torch.randn(9, 9)[2:7:2, 1:],
        torch.randn(0, 4),
        torch.tensor(float("nan")),
    ],
    ids=["transposed", "channels_last", "expanded", "sliced", "empty", "scalar"],
)
def test_every_layout_comes_back(given: Tensor) -> None:
    found = back(given)
    assert isinstance(found, Tensor)
    assert (found.shape, found.stride()) == (given.shape, given.stride())
    torch.testing.assert_close(found, given, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("given", [None, True, -3, 2**62, 0.1, float("inf"), [1, 2, 3], []])
def test_numbers_come_back(given: Value) -> None:
    found = back(given)
    assert found == given
    assert type(found) is type(given)


def test_a_tuple_of_tensors_and_the_results_come_back() -> None:
    pair = (torch.ones(2), torch.zeros(3, dtype=torch.int64))
    found = decode(encode(Problem((pair,), (torch.ones(1),), (torch.ones(1).double(),))))
    assert isinstance(found.arguments[0], tuple)
    assert [torch.equal(a, b) for a, b in zip(found.arguments[0], pair, strict=True)] == [True, True]
    assert found.expected[0].dtype is torch.float64


def forged(header: bytes, body: bytes = b"") -> bytes:
    return LENGTH.pack(len(header)) + header + body


def slot(**changes: object) -> bytes:
    tensor = TensorSlot(dtype="float32", shape=(2,), strides=(1,)).model_copy(update=changes)
    value = ValueSlot(kind=ArgumentKind.TENSOR, tensors=(tensor,))
    return ProblemHeader(arguments=(value,), native=(), expected=()).text().encode()


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "0 bytes are no problem"),
        (LENGTH.pack(HEADER_BYTES + 1), "a header of"),
        (LENGTH.pack(100) + b"{}", "a header of 100 bytes in 6"),
        (forged(b"{}"), "header: arguments: Field required"),
        (forged(b"\xff"), "header: "),
        (encode(EMPTY) + b"x", "1 bytes more"),
        (forged(slot(), b"1234567"), "a tensor of 8 bytes where 7 are left"),
        (forged(slot(dtype="object"), b"12345678"), "'object' does not exist"),
        (forged(slot(shape=(2, 2)), b"12345678"), r"shape \(2, 2\) with strides"),
        (forged(slot(shape=(1 << 40,)), b"12345678"), "a tensor of"),
        (forged(slot(strides=(1 << 60,)), b"12345678"), "a tensor of"),
        (forged(slot(shape=(1 << 62, 1 << 62, 0), strides=(1, 1, 1))), r"reach 2\^63"),
        (forged(slot(shape=(0,), strides=(1 << 80,))), r"reach 2\^63"),
        (forged(slot(shape=(10**400, 0), strides=(1, 1))), r"reach 2\^63"),
        (forged(slot(strides=(-1,)), b"12345678"), "header: "),
    ],
)
def test_nonsense_is_a_value_error(payload: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode(payload)


def test_a_value_without_its_content_is_refused() -> None:
    for kind in (ArgumentKind.TENSOR, ArgumentKind.FLOAT, ArgumentKind.INT, ArgumentKind.BOOL):
        header = ProblemHeader(arguments=(ValueSlot(kind=kind),), native=(), expected=())
        with pytest.raises(ValueError, match="that holds none"):
            decode(forged(header.text().encode()))


def test_kinds_are_held_to_the_signature() -> None:
    assert same_signature([ArgumentKind.OPTIONAL_TENSOR, ArgumentKind.FLOAT], (torch.ones(1), 2))
    assert same_signature([ArgumentKind.OPTIONAL_TENSOR], (None,))
    assert not same_signature([ArgumentKind.TENSOR], (None,))
    assert not same_signature([ArgumentKind.TENSOR, ArgumentKind.INT], (torch.ones(1),))
