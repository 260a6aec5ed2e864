"""The payloads of the worker's frames, and answers that are none."""

import random
import struct
from contextlib import suppress
from typing import cast

import pytest

from warpsmith.machines.virtual import Control, ExecutorSettings
from warpsmith.machines.worker import Raw, to_tensor
from warpsmith.machines.worker.protocol import (
    CLOCKS,
    MOST_RESULTS,
    MOST_TEXT,
    PLACE,
    RESULT,
    TENSOR,
    VALUE,
    MalformedReply,
    ReportedTensor,
    Status,
    ValueKind,
    call,
    parse,
    parse_timed,
)
from warpsmith.machines.worker.run import fetch

VECTOR = Raw("float32", (2,), (1,), bytes(8))


def answer(*values: bytes, status: int = 0, text: bytes = b"", count: int | None = None) -> bytes:
    head = RESULT.pack(status, 0, 0.5, len(text), len(values) if count is None else count)
    return b"".join([head, text, *values])


def result(
    shape: tuple[int, ...] = (2,),
    data: bytes = bytes(8),
    code: tuple[int, int] = (2, 32),
    strides: tuple[int, ...] | None = None,
) -> bytes:
    sizes = struct.pack(f"<{2 * len(shape)}q", *shape, *(strides or (1,) * len(shape)))
    head = VALUE.pack(ValueKind.TENSOR, 1) + TENSOR.pack(*code, 1, len(shape))
    return head + sizes + PLACE.pack(0, len(data)) + data


def test_an_answer_with_a_result() -> None:
    got = parse(answer(result(), text=b"hm"))
    assert got.status is Status.DONE and got.text == "hm" and got.seconds == 0.5
    assert got.results[0].tensor == VECTOR


def test_a_call_carries_bytes_or_addresses() -> None:
    assert VECTOR.data in call("forward", [VECTOR], None)
    placed = call("forward", [VECTOR], lambda raw: 0x1000)
    assert (0x1000).to_bytes(8, "little") in placed
    assert len(placed) == len(call("forward", [VECTOR], None)) - len(VECTOR.data)


def test_a_call_says_whether_the_device_shall_be_awake_and_whether_it_is_recorded() -> None:
    def flags(**options: bool) -> int:
        return int.from_bytes(call("forward", [], lambda raw: 0, **options)[:4], "little")

    assert [flags(), flags(recorded=True), flags(awake=True)] == [0, 2, 4]  # worker_protocol.h


@pytest.mark.parametrize("value", [None, 1.5, 3, True, [1, 2, 3], (VECTOR, VECTOR), VECTOR])
def test_every_kind_of_value_has_its_own_kind(value: object) -> None:
    kinds = {type(None): 0, Raw: 1, tuple: 2, float: 3, int: 4, bool: 5, list: 6}
    payload = call("f", [value], None)  # type: ignore[list-item]
    assert struct.unpack_from("<i", payload, 12 + 1)[0] == kinds[type(value)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        answer(result())[:-1],
        answer(result()) + b"x",
        answer(count=1),
        answer(count=4_000_000_000),
        answer(status=77),
        answer(VALUE.pack(ValueKind.FLOAT, 1) + bytes(8)),
        answer(result(code=(9, 3))),
        answer(result(shape=(-2,), data=b"")),
        answer(result(shape=(3,))),
        answer(VALUE.pack(ValueKind.TENSOR, 1) + TENSOR.pack(2, 32, 1, 1000)),
        answer(*[result()] * (MOST_RESULTS + 1)),
    ],
)
def test_what_is_no_answer_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedReply):
        parse(payload)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1 << 62, 1 << 62, 1 << 62, 0), (1, 1, 1, 1)),
        ((0, 1 << 62), (1, 1)),
        ((1 << 61,), (1,)),
        ((1 << 32, 1 << 32), (0, 0)),
        ((2, 2), (1 << 62, 1 << 62)),
        ((2,), ((1 << 63) - 1,)),
        ((1,), ((1 << 63) - 1,)),
        ((0,), (1 << 62,)),
        (((1 << 63) - 1,) * 16, (1,) * 16),
    ],
)
def test_a_result_of_2_to_the_63_bytes_is_malformed(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(MalformedReply, match=r"2\^63"):
        parse(answer(result(shape, b"", strides=strides)))
    timed = CLOCKS.pack(1.0, 1.0, 0) + answer(result(shape, b"", strides=strides))
    with pytest.raises(MalformedReply, match=r"2\^63"):
        parse_timed(timed)


@pytest.mark.parametrize(("shape", "strides"), [((0, 1 << 60), (1 << 60, 1)), ((1, 0, 3), (0, 3, 1)), ((), ())])
def test_every_claim_that_is_parsed_becomes_a_tensor(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    (claim,) = parse(answer(result(shape, b"", strides=strides))).results
    tensor = to_tensor(claim.tensor)
    assert (tuple(tensor.shape), tuple(tensor.stride())) == (shape, strides)


def test_claims_at_random_are_malformed_or_become_tensors() -> None:
    """Sizes and strides near powers of two, with and without zeros: torch never raises on what was parsed."""
    rng = random.Random(5)
    edges = [0, 1, 2, 3, *(max(0, (1 << bits) + step) for bits in (20, 31, 32, 59, 61, 62) for step in (-1, 0, 1))]
    kept = 0
    for _ in range(3000):
        count = rng.randrange(1, 5)
        shape = (*(rng.choice(edges) for _ in range(count - 1)), 0)
        strides = tuple(rng.choice(edges) for _ in range(count))
        with suppress(MalformedReply):
            (claim,) = parse(answer(result(shape, b"", strides=strides))).results
            kept += to_tensor(claim.tensor).clone().numel() == 0
    assert kept > 100


@pytest.mark.parametrize("raw", [Raw("float32", (2,), (1 << 62,), b""), Raw("int8", (1 << 40,), (0,), b"")])
def test_a_result_that_no_memory_holds_is_not_asked_for(raw: Raw) -> None:
    """Its size would not even fit into the question."""
    assert fetch(cast(Control, None), [ReportedTensor(raw, 4096)], ExecutorSettings()) == [None]


def test_of_what_is_said_a_bounded_part_is_kept() -> None:
    assert len(parse(answer(text=b"x" * (MOST_TEXT + 9), status=6)).text) == MOST_TEXT


def test_the_span_of_a_strided_tensor() -> None:
    assert Raw("float16", (3, 4), (10, 2), b"").span_bytes == 2 * (20 + 6 + 1)
    assert Raw("float16", (3, 0), (10, 2), b"").span_bytes == 0
    assert Raw("int64", (), (), b"").span_bytes == 8
