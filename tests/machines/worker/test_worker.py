"""The worker and whoever speaks to it: junk on either side, ends that come early."""

import os
import shutil
import signal
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, HERE, LIMITS, artifact, numbers

from warpsmith.isolation import Child, Frame, FrameError, FrameFault, Limit, Policy as Confinement, spawn, system_paths
from warpsmith.machines.virtual import ExecutorSettings, VirtualGpu, describe, executor, runtime
from warpsmith.machines.worker import FakeSandbox, Observation, Raw, VirtualSandbox
from warpsmith.machines.worker.ending import end_silent
from warpsmith.machines.worker.protocol import FrameKind, Status, call
from warpsmith.machines.worker.run import worker_policy
from warpsmith.machines.worker.worker import Conversation, start, worker
from warpsmith.records import Reason

SMALL = ExecutorSettings(memory_bytes=1 << 28, wall_s=30)
SANDBOX = VirtualSandbox(limits=LIMITS, settings=SMALL)


@pytest.fixture
def talk() -> object:
    """A worker on a virtual GPU of its own, to be spoken to by hand."""
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        policy = worker_policy(artifact(HERE / "calls.cu"), runtime().parent, LIMITS, {"WARPSMITH_VGPU_FD": "5"})
        with start(policy, [gpu.client.fileno()]) as child:
            gpu.client.close()
            yield Conversation(child, 20)


def test_one_worker_answers_many_calls(talk: Conversation) -> None:
    loaded = talk.load(artifact(HERE / "calls.cu"))
    assert not isinstance(loaded, FrameError) and loaded.status is Status.DONE
    for _ in range(3):
        answer = talk.call(call("launch", [EIGHT], None))
        assert not isinstance(answer, FrameError) and answer.status is Status.DONE
        assert numbers(answer.results[0].tensor) == [2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0",
        call("launch", [EIGHT], None)[:-1],
        call("launch", [EIGHT], None) + b"x",
        struct.pack("<III", 0, 1 << 31, 1),
        struct.pack("<III", 1, 1, 1 << 31) + b"f",
        struct.pack("<III", 1, 1, 1) + b"f" + struct.pack("<ii", 99, 1),
        struct.pack("<III", 1, 1, 1) + b"f" + struct.pack("<iiBBHi", 1, 1, 2, 32, 1, 1000),
        struct.pack("<III", 1, 1, 1) + b"f" + struct.pack("<ii", 6, -5),
    ],
)
def test_a_call_that_cannot_be_read_is_answered_with_that(talk: Conversation, payload: bytes) -> None:
    answer = talk.call(payload)
    assert not isinstance(answer, FrameError)
    assert answer.status is Status.BAD_REQUEST


def test_a_call_before_a_load_is_refused(talk: Conversation) -> None:
    answer = talk.call(call("launch", [EIGHT], None))
    assert not isinstance(answer, FrameError) and answer.status is Status.BAD_REQUEST


def test_a_worker_ends_at_a_frame_that_is_none() -> None:
    policy = Confinement(
        read=(*system_paths(), runtime().parent, worker().parent),
        limits=LIMITS,
        env={"LD_LIBRARY_PATH": str(runtime().parent)},
    )
    with Child([worker()], policy) as child:
        os.write(child._writer.fd, b"this is not a frame at all, but it is long enough to be one")
        assert child.wait().exit_code == 0


def test_a_worker_that_closes_its_end_and_stays_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.machines.worker.ending.ENDING_S", 0.3)
    policy = Confinement(read=system_paths(), limits=LIMITS)
    with spawn(["sh", "-c", "exec 4>&-; sleep 15"], policy) as child:
        silence = child.receive(5.0)
        assert isinstance(silence, FrameError) and silence.fault is FrameFault.MISSING
        ended = end_silent(child, silence)
    assert ended.stopped is Limit.KILLED and ended.seconds < 10


def test_without_a_device_every_request_says_so() -> None:
    policy = worker_policy(artifact(HERE / "calls.cu"), runtime().parent, LIMITS, {})
    with start(policy) as child:
        answer = Conversation(child, 20).load(artifact(HERE / "calls.cu"))
    assert not isinstance(answer, FrameError)
    assert answer.status is Status.CUDA_ERROR and "cudaErrorNoDevice" in answer.text


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library\n" * 100])
def test_junk_for_an_artifact_does_not_load(tmp_path: Path, content: bytes) -> None:
    junk = tmp_path / "junk.so"
    junk.write_bytes(content)
    observation = SANDBOX.run(junk, "forward", [])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.NO_ENTRY


def test_a_library_without_our_functions_has_no_entry() -> None:
    observation = SANDBOX.run(runtime(12), "forward", [])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.NO_ENTRY
    assert "warpsmith_call" in observation.failure.detail


def running(program: Path) -> set[int]:
    """The processes of a program that run now."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[0] == str(program).encode():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def test_an_executor_that_is_killed_is_our_fault_and_no_traceback(
    tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    own, seen = tmp_path / "an-executor-of-this-test", list[Observation]()
    shutil.copy(executor(), own)
    sandbox = replace(SANDBOX, executor=own)
    thread = threading.Thread(target=lambda: seen.append(sandbox.run(artifact(HERE / "faults.cu"), "endless", [EIGHT])))
    thread.start()
    wait_until(lambda: running(own))
    time.sleep(1.0)  # it is killed while the kernel runs, or while it begins: our fault both times
    for pid in running(own):
        os.kill(pid, signal.SIGKILL)
    thread.join()
    (observation,) = seen
    assert observation.failure is not None
    assert observation.failure.reason is Reason.HARNESS, observation.failure


def test_every_kind_of_argument_arrives() -> None:
    made = artifact(HERE / "arguments.cu")
    vector = Raw("float32", (2,), (1,), struct.pack("<2f", 1, 2))
    strided = Raw("int64", (2, 2), (3, 1), struct.pack("<5q", 1, 2, 0, 3, 4))
    observation = SANDBOX.run(made, "sum", [vector, None, (vector, vector), 0.5, 7, True, [10, 20], strided])
    assert observation.failure is None, observation.failure
    assert numbers(observation.results[0]) == [1 + 2 + 2 * (1 + 2) + 0.5 + 7 + 1 + 30 + 3 + 4]


def test_a_fake_sandbox_gives_what_it_was_made_with() -> None:
    observation = Observation(None, (EIGHT,))
    assert FakeSandbox(observation).run(Path("none"), "forward", []) is observation


def test_frames_of_the_protocol_have_distinct_kinds() -> None:
    assert len({kind.value for kind in FrameKind}) == len(FrameKind)
    assert Frame(FrameKind.CALL).payload == b""
