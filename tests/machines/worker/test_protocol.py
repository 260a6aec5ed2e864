"""The payloads of the worker's frames, and answers that are none."""

import struct
from typing import cast

import pytest

from warpsmith.machines.virtual import Control, Settings
from warpsmith.machines.worker import Raw
from warpsmith.machines.worker.protocol import (
    MOST_RESULTS,
    MOST_TEXT,
    PLACE,
    RESULT,
    TENSOR,
    VALUE,
    Claim,
    Malformed,
    Status,
    ValueKind,
    call,
    parse,
)
from warpsmith.machines.worker.run import fetch

VECTOR = Raw("float32", (2,), (1,), bytes(8))


def answer(*values: bytes, status: int = 0, text: bytes = b"", count: int | None = None) -> bytes:
    head = RESULT.pack(status, 0, 0.5, len(text), len(values) if count is None else count)
    return b"".join([head, text, *values])


def result(shape: tuple[int, ...] = (2,), data: bytes = bytes(8), code: tuple[int, int] = (2, 32)) -> bytes:
    sizes = struct.pack(f"<{2 * len(shape)}q", *shape, *(1,) * len(shape))
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
    with pytest.raises(Malformed):
        parse(payload)


@pytest.mark.parametrize("raw", [Raw("float32", (2,), (1 << 62,), b""), Raw("int8", (1 << 40,), (0,), b"")])
def test_a_result_that_no_memory_holds_is_not_asked_for(raw: Raw) -> None:
    """Its size would not even fit into the question."""
    assert fetch(cast(Control, None), [Claim(raw, 4096)], Settings()) == [None]


def test_of_what_is_said_a_bounded_part_is_kept() -> None:
    assert len(parse(answer(text=b"x" * (MOST_TEXT + 9), status=6)).text) == MOST_TEXT


def test_the_span_of_a_strided_tensor() -> None:
    assert Raw("float16", (3, 4), (10, 2), b"").span_bytes == 2 * (20 + 6 + 1)
    assert Raw("float16", (3, 0), (10, 2), b"").span_bytes == 0
    assert Raw("int64", (), (), b"").span_bytes == 8
