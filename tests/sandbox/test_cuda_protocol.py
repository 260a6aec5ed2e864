"""The frames and the poison of a session on a real GPU, as far as they can be seen without one."""

import struct

import pytest
import torch

from warpsmith.base import MachineError
from warpsmith.sandbox import cuda_session as session
from warpsmith.sandbox.cuda_memory import Arena
from warpsmith.sandbox.cuda_room import ALIGNMENT, Room, room_around, room_for
from warpsmith.sandbox.protocol import Malformed, Status, go, parse_timed, share

ANSWER = struct.pack("<iidII", 0, 0, 0.5, 0, 0)


def test_a_timed_answer_has_clocks_blocks_and_the_answer() -> None:
    found = parse_timed(struct.pack("<ddI", 12.5, 3.25, 1) + struct.pack("<QQ", 2 << 56 | 4096, 64) + ANSWER)
    assert (found.event_us, found.host_us) == (12.5, 3.25)
    assert found.blocks == ((2 << 56 | 4096, 64),)
    assert found.answer.status is Status.DONE


@pytest.mark.parametrize(
    "payload",
    [b"", struct.pack("<ddI", 1, 1, 1) + ANSWER[:8], struct.pack("<ddI", 1, 1, 1 << 30), struct.pack("<ddI", 1, 1, 0)],
)
def test_a_short_or_swollen_answer_is_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        parse_timed(payload)


@pytest.mark.parametrize("claimed", [0.0, -5.0])
def test_a_claim_of_no_time_is_one_of_a_nanosecond(claimed: float) -> None:
    found = parse_timed(struct.pack("<ddI", claimed, claimed, 0) + ANSWER)
    assert (found.event_us, found.host_us) == (0.001, 0.001)


@pytest.mark.parametrize("claimed", [float("nan"), float("inf")])
def test_a_claim_that_is_no_number_is_malformed(claimed: float) -> None:
    with pytest.raises(Malformed, match="times of"):
        parse_timed(struct.pack("<ddI", claimed, 1.0, 0) + ANSWER)


def test_requests_are_packed_as_the_worker_reads_them() -> None:
    assert share([(5, 4096, 0x302000000)]) == struct.pack("<IiQQ", 1, 5, 4096, 0x302000000)
    assert (go(True), go(False)) == (b"\x01\0\0\0", b"\0\0\0\0")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_poison_is_no_number_in_any_type_and_is_seen(dtype: torch.dtype) -> None:
    word = session._poison()
    region = torch.zeros(64, dtype=torch.uint8)
    session._paint(region, word)
    assert region.view(dtype).isnan().all()
    assert session._holds(region.view(dtype), word)
    assert not session._holds(torch.zeros(8, dtype=dtype), word)


def test_poison_differs_between_calls() -> None:
    assert len({session._poison() for _ in range(50)}) > 40


def test_a_written_guard_is_seen() -> None:
    word = session._poison()
    region = torch.zeros(64, dtype=torch.uint8)
    session._paint(region, word)
    assert session._is_painted(region, word)
    region[17] ^= 1
    assert not session._is_painted(region, word)


def test_results_that_share_memory_are_aliased() -> None:
    base = torch.zeros(32)
    spans = [(base.data_ptr(), 64)]
    assert session._aliased([base[8:16]], spans) == (0,)
    assert session._aliased([base[16:24], base[20:28]], spans) == (1,)
    assert session._aliased([base[16:24], base[24:32]], spans) == ()


def test_room_grows_with_what_it_must_hold() -> None:
    small, large = (room_for((torch.zeros(n),), (torch.zeros(n),)) for n in (10, 1_000_000))
    assert large.slot_bytes - small.slot_bytes >= 8 * 999_000
    odd = room_for((torch.zeros(3), torch.zeros(5, dtype=torch.long)), (torch.zeros(1),))
    assert odd.slot_bytes % ALIGNMENT == 0  # the next slot's tensors begin there
    assert large.results_bytes > small.results_bytes


def test_without_a_driver_the_message_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    with pytest.raises(MachineError, match="--device vgpu"):
        Arena(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64])
@pytest.mark.parametrize("count", [1, 3, 8, 64])
def test_one_byte_makes_a_difference_wherever_a_tensor_begins(dtype: torch.dtype, count: int) -> None:
    tensor = torch.arange(count + 3).to(dtype)[3:]
    other = tensor.clone()
    assert session._same(session._bytes_of(tensor), session._bytes_of(other))
    other[-1] += 1
    assert not session._same(session._bytes_of(tensor), session._bytes_of(other))


@pytest.mark.parametrize(
    ("first", "other"), [(Room(10, 500, 4), Room(30, 100, 1)), (Room(10, 100, 1), Room(10, 500, 4))]
)
def test_arenas_around_two_rooms_hold_the_slots_of_either(first: Room, other: Room) -> None:
    assert room_around(first, other) == Room(40, 500, 1)
    assert room_around(first, first).results_bytes == first.results_bytes
