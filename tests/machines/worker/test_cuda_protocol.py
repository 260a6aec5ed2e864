"""The frames and the poison of a session on a real GPU, as far as they can be seen without one."""

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.base import HarnessError, MachineError
from warpsmith.machines.cuda import CUDA, session, slot
from warpsmith.machines.cuda.memory import Arena, are_bases
from warpsmith.machines.cuda.room import ALIGNMENT, Buffers, Room, room_around, room_for
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.rehearsed.access import RehearsedAccess
from warpsmith.machines.worker.protocol import (
    MalformedReply,
    ReportedTensor,
    Status,
    Timed,
    WorkerReply,
    go,
    parse_timed,
    share,
)
from warpsmith.machines.worker.values import Raw

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
    with pytest.raises(MalformedReply):
        parse_timed(payload)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_bytes_of_an_answer_are_changed_the_judge_goes_on(seed: int) -> None:
    """It is malformed, or failure, or clean; what is kept is painted around before the next call."""
    gpu = RehearsedMachine().access
    one, draw = session.CudaSession(Path(), "", Path(), Room(1024, 8192), gpu=gpu), random.Random(seed)
    one._views = [torch.zeros(16384, dtype=torch.uint8) for _ in range(3)]
    one.use(Room(1024, 8192))
    placed = slot.Placed(one._views[0], range(1024), slot.new_poison())
    tensor = struct.pack("<iiBBHi2qQQ", 1, 1, 2, 32, 1, 1, 64, 1, 2 << 56 | 2048, 0)
    real = struct.pack("<ddIQQ", 1, 1, 1, 2 << 56 | 1024, 64) + struct.pack("<iidII", 0, 0, 0.5, 0, 1) + tensor
    for _ in range(500):
        spoilt, at = bytearray(real), draw.randrange(len(real))
        spoilt[at : at + 4] = draw.choice((b"\0" * 4, b"\xff" * 4, draw.randbytes(4)))
        with suppress(MalformedReply):
            timed = parse_timed(bytes(spoilt[: len(real)]))
            found = [one._result(claim, placed) for claim in timed.answer.results]
            one._live = () if one._nonsense(found, timed, placed) else session._kept(timed)
            one._poison_free(slot.new_poison(), one._views[1])


@pytest.mark.parametrize("claimed", [0.0, -5.0])
def test_a_claim_of_no_time_is_one_of_a_nanosecond(claimed: float) -> None:
    found = parse_timed(struct.pack("<ddI", claimed, claimed, 0) + ANSWER)
    assert (found.event_us, found.host_us) == (0.001, 0.001)


@pytest.mark.parametrize("claimed", [float("nan"), float("inf")])
def test_a_claim_that_is_no_number_is_malformed(claimed: float) -> None:
    with pytest.raises(MalformedReply, match="times of"):
        parse_timed(struct.pack("<ddI", claimed, 1.0, 0) + ANSWER)


def test_requests_are_packed_as_the_worker_reads_them() -> None:
    assert share([(5, 4096, 0x302000000)]) == struct.pack("<IiQQ", 1, 5, 4096, 0x302000000)
    assert (go(True), go(False)) == (b"\x01\0\0\0", b"\0\0\0\0")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_poison_is_no_number_in_any_type_and_is_seen(dtype: torch.dtype) -> None:
    word = slot.new_poison()
    region = torch.zeros(64, dtype=torch.uint8)
    slot.paint(region, word)
    assert region.view(dtype).isnan().all()
    assert slot.holds_poison(region.view(dtype), word)
    assert not slot.holds_poison(torch.zeros(8, dtype=dtype), word)
    assert not slot.holds_poison(torch.zeros(0, dtype=dtype), word)


RESULT = ReportedTensor(Raw("float32", (1024,), (1,), b""), 2 << 56 | 4096)  # 4096 bytes of the results' arena


@pytest.mark.parametrize(
    ("start", "size", "kept"),
    [(0, 4096, True), (4100, 8, False), (0, 4097, False), (8191, 64, False), (8192, 64, True)],
)
def test_no_byte_of_a_result_counts_as_kept(start: int, size: int, kept: bool) -> None:
    """What is kept is not poisoned, and a result that is not would seem to be written."""
    block = (2 << 56 | start, size)
    timed = Timed(WorkerReply(Status.DONE, 0, 0.0, "", (RESULT,)), 1.0, 1.0, (block,))
    assert session._kept(timed) == ((block,) if kept else ())


@pytest.mark.parametrize(
    ("block", "good"),
    [
        ((2 << 56 | 1024, 64), True),
        ((2 << 56 | 1025, 64), False),
        ((1 << 56 | 1024, 64), False),
        ((2 << 56 | 1024, 1 << 63), False),
        ((1024, 64), False),
    ],
)
def test_what_is_kept_lies_where_the_worker_gives_memory(block: tuple[int, int], good: bool) -> None:
    """The judge paints up to it and from its end on, word by word."""
    one = session.CudaSession(Path(), "", Path(), Room(1024, 1024))
    one._views = [torch.zeros(4096, dtype=torch.uint8)] * 3
    one.use(Room(1024, 1024))
    placed = slot.Placed(one._views[0], range(len(one._views[0])), slot.new_poison())
    said = one._nonsense([], Timed(WorkerReply(Status.DONE, 0, 0.0, "", ()), 1.0, 1.0, (block,)), placed)
    assert (said == "") is good


def test_views_of_the_same_bytes_are_not_copied_beyond_a_call_s_memory() -> None:
    one = session.CudaSession(Path(), "", Path(), Room(1024, 1024))
    one._views = [torch.zeros(8192, dtype=torch.uint8)] * 3
    one.use(Room(1024, 8192))
    placed = slot.Placed(one._views[0], range(1024), slot.new_poison())
    views = (RESULT,) * 3
    found = [one._result(claim, placed) for claim in views]
    assert None not in found
    assert one._nonsense(found, Timed(WorkerReply(Status.DONE, 0, 0.0, "", views), 1.0, 1.0, ()), placed)


def test_a_result_right_behind_what_is_kept_is_painted() -> None:
    kept = (2 << 56 | 3840, 1)  # its place in the paint reaches to 4096
    early = ReportedTensor(Raw("float32", (8,), (1,), b""), 2 << 56 | 3904)
    timed = Timed(WorkerReply(Status.DONE, 0, 0.0, "", (early,)), 1.0, 1.0, (kept,))
    assert session._kept(timed) == ()


@pytest.mark.parametrize(("offset", "found"), [(256, True), (1020, True), (0, False), (1024, False), (2048, False)])
def test_a_result_among_the_arguments_lies_in_the_slot_that_was_poisoned(offset: int, found: bool) -> None:
    one = session.CudaSession(Path(), "", Path(), Room(1024, 1024))
    one._arenas = [SimpleNamespace(bytes=4096)] * 3  # type: ignore[list-item]
    one._views = [torch.zeros(4096, dtype=torch.uint8)] * 3
    one.use(Room(1024, 1024))
    placed = slot.Placed(one._views[0], range(256, 1024), slot.new_poison())
    claim = ReportedTensor(Raw("float32", (1,), (1,), b""), 1 << 56 | offset)
    assert (one._result(claim, placed) is not None) is found


@pytest.mark.parametrize(("offset", "found"), [(0, True), (2044, True), (2048, False), (4000, False)])
def test_a_result_lies_in_the_memory_that_was_poisoned(offset: int, found: bool) -> None:
    """The arena may be larger: what lies there is of another call, and a kernel could leave it as it is."""
    one = session.CudaSession(Path(), "", Path(), Room(1024, 1024))
    one._arenas = [SimpleNamespace(bytes=4096)] * 3  # type: ignore[list-item]
    one._views = [torch.zeros(4096, dtype=torch.uint8) for _ in range(3)]
    one.use(Room(512, 2048))
    placed = slot.Placed(one._views[0], range(256, 1024), slot.new_poison())
    claim = ReportedTensor(Raw("float32", (1,), (1,), b""), 2 << 56 | offset)
    assert (one._result(claim, placed) is not None) is found


def test_buffers_that_do_not_fit_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    class Small:
        def __init__(self, size: int, _number: int = 0) -> None:
            self.size = size
            if size > 1024:
                raise MachineError("out of memory")

        def __enter__(self) -> "Small":
            return self

        def __exit__(self, *_given: object) -> None:
            closed.append(self.size)

    monkeypatch.setattr(RehearsedAccess, "allocate", lambda _access, size: Small(size))
    with pytest.raises(MachineError), Buffers(Room(256, 2048, 4), RehearsedMachine().access):
        pass
    assert closed == [1024]


def test_another_room_leaves_alone_what_the_candidate_keeps() -> None:
    one = session.CudaSession(Path(), "", Path(), Room(1024, 1024))
    one._views = [torch.zeros(4096, dtype=torch.uint8) for _ in range(3)]
    one._live = ((2 << 56 | 1024, 64),)
    one.use(Room(512, 2048))
    painted = one._views[1].view(torch.float32).isnan()
    assert painted[:256].all() and painted[(1024 + ALIGNMENT) // 4 :].all(), "beyond the room as well"
    assert not one._views[1][1024:1088].any()


def test_a_worker_that_cannot_begin_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    @contextmanager
    def worker() -> Iterator[object]:
        done.append("begun")
        try:
            yield
        finally:
            done.append("ended")

    def refused(*_given: object) -> None:
        raise HarnessError("The worker could not take the shared memory")

    buffers = object.__new__(session.Buffers)
    buffers.room, buffers.arenas, buffers.views = Room(1, 1), [], []

    def begun(_access: object, *given: Any) -> object:
        return given[-1].enter_context(worker())

    monkeypatch.setattr(RehearsedAccess, "start_worker", begun)
    monkeypatch.setattr(session, "Conversation", refused)
    with pytest.raises(HarnessError), session.CudaSession(Path(), "", Path(), buffers, gpu=RehearsedMachine().access):
        pass
    assert done == ["begun", "ended"]


@pytest.mark.parametrize(
    ("bases", "possible"),
    [((2 << 20, 4 << 20, 8 << 20), True), ((0, 2 << 20, 4 << 20), False), ((1 << 47,) * 3, False)],
)
def test_memory_lies_where_it_can(bases: tuple[int, ...], possible: bool) -> None:
    assert are_bases(bases) is possible


def test_poison_differs_between_calls() -> None:
    assert len({slot.new_poison() for _ in range(50)}) > 40


def test_a_written_guard_is_seen() -> None:
    word = slot.new_poison()
    region = torch.zeros(64, dtype=torch.uint8)
    slot.paint(region, word)
    assert not slot.is_spoilt(region, word)
    region[17] ^= 1
    assert slot.is_spoilt(region, word)
    assert not slot.is_spoilt(region[:0], word)


def test_flags_are_told_by_their_groups() -> None:
    yes, no = torch.tensor(True), torch.tensor(False)
    assert slot.read_flags([yes, no], [], [no], [yes]) == [[True, False], [], [False], [True]]
    assert slot.read_flags([], []) == [[], []]


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
    assert not slot.differ(slot.bytes_of(tensor), slot.bytes_of(other))
    other[-1] += 1
    assert slot.differ(slot.bytes_of(tensor), slot.bytes_of(other))


@pytest.mark.parametrize(
    ("first", "other"), [(Room(10, 500, 4, 7), Room(30, 100, 1)), (Room(10, 100, 1), Room(10, 500, 4, 7))]
)
def test_arenas_around_two_rooms_hold_the_slots_of_either(first: Room, other: Room) -> None:
    assert room_around(first, other) == Room(40, 500, 1, 7)
    assert room_around(first, first).results_bytes == first.results_bytes


@pytest.mark.parametrize(("reserved", "given"), [(1 << 30, False), (20 << 30, True)])
def test_what_torch_keeps_is_given_back_where_it_is_much(
    reserved: int, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: reserved)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("given"))
    CUDA.release_cache()
    assert bool(done) is given


@pytest.mark.parametrize("is_end", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_argument_lies_against_an_end_of_the_memory(
    number: int, is_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)  # there is no GPU
    monkeypatch.setattr(torch, "empty_strided", lambda *_given, **_options: torch.zeros(0))
    arena, poison = torch.zeros(1 << 16, dtype=torch.uint8), slot.new_poison()
    arguments = (torch.arange(100.0), torch.arange(7.0), torch.zeros(0), torch.arange(300.0))
    placed = slot.Placed(arena, range(len(arena)), poison, slot.Edge(number, is_end))
    placed.put(arguments)
    starts = [start - arena.data_ptr() for start, size in placed.spans if size]
    if number < 2:  # an empty one lies nowhere
        size = slot.span(arguments[number])
        block = -(-size // slot.TORCH_BLOCK) * slot.TORCH_BLOCK
        assert starts[number] == (len(arena) - block if is_end else 0)
    assert not any(placed.changed()) and not any(placed.overrun())
    assert len(set(starts)) == 3
    for start, size in placed.spans:
        offset = start - arena.data_ptr()
        if size and offset + size + 4 <= len(arena):
            arena[offset + size : offset + size + 4] = 1
            assert any(placed.overrun()), "a guard zone follows"
            slot.paint(arena[offset + size : offset + size + 4], poison)
    assert not any(placed.overrun())
