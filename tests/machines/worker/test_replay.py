"""A recorded call repeated without the candidate's host code, on the virtual GPU: the same results, or a reason."""

import random
import re
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, HERE, LIMITS, artifact, numbers

from warpsmith.isolation import Frame
from warpsmith.machines.virtual import ExecutorSettings, VirtualGpu, describe, runtime
from warpsmith.machines.worker.protocol import (
    CapturedOperations,
    FrameKind,
    Status,
    WorkerReply,
    call,
    parse_recorded,
    play,
)
from warpsmith.machines.worker.run import _place, fetch
from warpsmith.machines.worker.worker import UNDER_TOOL, Conversation, start, worker_policy

SMALL = ExecutorSettings(memory_bytes=1 << 28, wall_s=30)
FILE = artifact(HERE / "calls.cu")


@dataclass
class Bench:
    """One worker on a virtual GPU whose memory we can see."""

    gpu: VirtualGpu
    talk: Conversation
    argument: int = 0  # its address

    def recorded(self, entry: str, before: int = 0) -> tuple[WorkerReply, CapturedOperations]:
        """A call, and what it asked for; some others come before it."""
        loaded = self.talk.load(FILE)
        assert isinstance(loaded, WorkerReply) and loaded.status is Status.DONE
        self.argument = _place(self.gpu.control, EIGHT)
        for _ in range(before):
            self.talk.call(call(entry, [EIGHT], lambda _raw: self.argument))
            self.gpu.control.write(self.argument, EIGHT.data)
        answer = self.talk.call(call(entry, [EIGHT], lambda _raw: self.argument, recorded=True))
        assert isinstance(answer, WorkerReply) and answer.status is Status.DONE
        found = self.talk.exchange(Frame(FrameKind.RECORD), FrameKind.RECORDED)
        assert isinstance(found, Frame)
        return answer, parse_recorded(found.payload)

    def result(self, answer: WorkerReply) -> list[float]:
        """The result's memory as it is now."""
        (raw,) = fetch(self.gpu.control, answer.results[:1], ExecutorSettings())
        assert raw is not None
        return numbers(raw)

    def again(self, recording: CapturedOperations) -> WorkerReply:
        """The recorded call, asked for anew; its own arguments do not matter."""
        loaded = self.talk.ask(Frame(FrameKind.PLAY, play(str(FILE), recording)), FrameKind.LOADED)
        assert isinstance(loaded, WorkerReply)
        if loaded.status is not Status.DONE:
            return loaded
        answer = self.talk.call(call("whatever", [], None))
        assert isinstance(answer, WorkerReply)
        return answer


@pytest.fixture
def bench() -> Iterator[Bench]:
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        more = {
            "WARPSMITH_VGPU_FD": "5",
            **UNDER_TOOL,
        }  # one process records and repeats here, and opens the file twice
        policy = worker_policy(FILE, runtime().parent, LIMITS, more)
        with start(replace(policy, read=(*policy.read, FILE.parent)), [gpu.client.fileno()]) as child:
            gpu.client.close()
            yield Bench(gpu, Conversation(child, 20))


@pytest.mark.parametrize(
    "entry",
    [
        *("launch", "symbols", "events", "joined", "legacy_stream", "extended_launch", "captured", "built_graph"),
        *("opted_in", "strided", "thread_then_legacy", "waits_before"),
        *("scrambled_graph", "changed_graph", "counting", "disguised_chain", "disguised_legacy"),
    ],
)
def test_a_call_is_repeated_from_what_it_asked_for(bench: Bench, entry: str) -> None:
    answer, recording = bench.recorded(entry)
    assert recording.fault == ""
    expected = bench.result(answer)
    bench.gpu.control.write(answer.results[0].address, b"\xff" * len(EIGHT.data))
    bench.gpu.control.write(bench.argument, EIGHT.data)  # these entries work in place
    assert bench.result(answer) != expected
    launches = launched(bench)
    repeated = bench.again(recording)
    assert (repeated.status, repeated.results) == (Status.DONE, ()), repeated.text
    assert bench.result(answer) == expected
    assert launched(bench) == launches and (launches > 0 or entry == "strided")  # which only copies


def launched(bench: Bench) -> int:
    return sum(row.launches for row in bench.gpu.control.facts().kernels)


@pytest.mark.parametrize("before", [0, 1, 40])
def test_variables_hold_before_each_repetition_what_they_held_before_the_call(bench: Bench, before: int) -> None:
    """Whoever wrote them: the host, a kernel; and also one that no code of the host's knows of."""
    answer, recording = bench.recorded("counting", before)
    expected = bench.result(answer)
    assert expected[0] == 1.0 + 0.5 + (100.0 * before + 70.0 if before else 0.0)
    for _ in range(3):
        bench.gpu.control.write(bench.argument, EIGHT.data)
        repeated = bench.again(recording)
        assert repeated.status is Status.DONE, repeated.text
        assert bench.result(answer) == expected


def test_values_of_variables_that_are_not_as_long_as_they_are_refused(bench: Bench) -> None:
    _, recording = bench.recorded("counting")
    longer = struct.pack("<I", 5) + b"added" + struct.pack("<Q", 8)
    true = struct.pack("<I", 5) + b"added" + struct.pack("<Q", 4)
    assert recording.operations.count(true) == 1
    forged = replace(recording, operations=recording.operations.replace(true, longer))
    assert bench.again(forged).status is Status.BAD_REQUEST


def test_a_copy_whose_direction_is_not_said_is_not_repeated(bench: Bench) -> None:
    _, recording = bench.recorded("memory")
    assert recording.fault.endswith("whose direction is not said")
    assert recording.operations == b""


def test_work_that_nobody_waits_for_is_not_repeated(bench: Bench) -> None:
    """In one order nobody would see that it may come late."""
    _, recording = bench.recorded("unjoined")
    assert recording.fault == "work on a stream that the current one does not wait for"


@pytest.mark.parametrize(
    "entry",
    [
        *("streams", "waits_for_device", "unjoined_blocking", "pageable_copy", "empty_copies", "disguised"),
        *("cleared_aside", "disguised_after_event", "disguised_per_thread", "address_in_memory", "graph_aside"),
    ],
)
def test_work_that_waits_for_nobody_is_not_repeated(bench: Bench, entry: str) -> None:
    """It is joined at the end, but the arguments may not have been made when it begins, whatever it is told of them."""
    _, recording = bench.recorded(entry)
    assert recording.fault == "work on a stream that does not wait for the current one"


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_recording_that_is_damaged_is_refused(bench: Bench, cut: int) -> None:
    _, recording = bench.recorded("launch")
    damaged = CapturedOperations("", recording.bases, recording.operations[:-cut])
    assert bench.again(damaged).status is Status.BAD_REQUEST


@pytest.mark.parametrize("seed", range(3))
def test_whatever_bytes_of_a_recording_are_changed_the_player_answers(bench: Bench, seed: int) -> None:
    _, recording = bench.recorded("built_graph")
    draw = random.Random(seed)
    for _ in range(60):
        spoilt = bytearray(recording.operations)
        at = draw.randrange(len(spoilt))
        spoilt[at : at + draw.choice((0, 1, 4, 8))] = draw.randbytes(draw.choice((1, 4, 8)))
        assert bench.again(CapturedOperations("", recording.bases, bytes(spoilt))).status in Status


def test_a_recording_of_memory_that_lies_elsewhere_is_refused(bench: Bench) -> None:
    _, recording = bench.recorded("launch")
    moved = CapturedOperations("", (1 << 30, 0, 0), recording.operations)
    refused = bench.again(moved)
    assert refused.status is Status.BAD_REQUEST and "other addresses" in refused.text


def swapped(recording: CapturedOperations) -> CapturedOperations:
    """As if its kernel had its two parameters the other way round."""
    true, false = (struct.pack("<III", 2, *sizes) for sizes in ((8, 4), (4, 8)))
    assert true in recording.operations
    return CapturedOperations("", recording.bases, recording.operations.replace(true, false))


def test_parameters_must_have_the_sizes_that_the_kernel_has(bench: Bench) -> None:
    """The runtime would read past them."""
    _, recording = bench.recorded("launch")
    assert bench.again(swapped(recording)).status is Status.BAD_REQUEST


def test_what_a_text_in_the_artifact_says_of_parameters_is_not_believed(bench: Bench) -> None:
    """The runtime knows better, and would give the kernel what lies behind them in the player's memory."""
    _, recording = bench.recorded("launch")
    names = [name for name in re.findall(rb"\.entry (\w+)\(", FILE.read_bytes()) if name in recording.operations]
    forged = FILE.read_bytes() + b"\n.entry " + names[0] + b"(.param .u32 a, .param .u64 b)\n"
    assert played(bench, swapped(recording), forged).status is Status.BAD_REQUEST


def test_a_second_image_of_device_code_is_not_played(bench: Bench) -> None:
    """One before the compiler's would be taken for it."""
    _, recording = bench.recorded("launch")
    text, head = FILE.read_bytes(), struct.pack("<IHH", 0xBA55ED50, 1, 16)
    assert text.count(head) == 1
    at = text.index(head) + len(head)
    (size,) = struct.unpack_from("<Q", text, at)
    two = text[:at] + struct.pack("<Q", size - 64) + text[at + 8 :]  # as if another began 64 bytes before the end
    refused, taken = (played(bench, recording, content) for content in (two, text))
    assert refused.status is Status.BAD_REQUEST and "one image" in refused.text
    assert taken.status is Status.DONE


def test_an_image_around_the_compiler_s_is_not_played(bench: Bench) -> None:
    """What was checked, and what the compiler and the virtual GPU looked at, would be another kernel."""
    _, recording = bench.recorded("launch")
    refused = played(bench, recording, artifact(Path(__file__).parent / "image_before.cu").read_bytes())
    assert refused.status is Status.BAD_REQUEST and "one image" in refused.text


def played(bench: Bench, recording: CapturedOperations, content: bytes) -> WorkerReply:
    with tempfile.NamedTemporaryFile(dir=FILE.parent) as file:
        file.write(content)
        file.flush()
        Path(file.name).chmod(0o644)
        found = bench.talk.ask(Frame(FrameKind.PLAY, play(file.name, recording)), FrameKind.LOADED)
    assert isinstance(found, WorkerReply)
    return found
