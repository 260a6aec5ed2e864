"""Host code of a candidate runs inside its calls and at no other time, whatever it asks the kernel for."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, LIMITS, artifact, numbers

from warpsmith.machines.virtual import ExecutorSettings, VirtualGpu, describe, runtime
from warpsmith.machines.worker.protocol import Status, WorkerReply, call
from warpsmith.machines.worker.worker import Conversation, start, worker_policy

FILE = artifact(Path(__file__).parent / "between_calls.cu")
WAYS = "sigio other_signal interval timer directory sequence fault constructor"


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """A worker that has loaded the file; built before the clock of its virtual GPU runs."""
    policy = worker_policy(FILE, runtime().parent, LIMITS, {"WARPSMITH_VGPU_FD": "5"})
    small = ExecutorSettings(memory_bytes=1 << 28, wall_s=30)
    with VirtualGpu(describe("H200"), small) as gpu, start(policy, [gpu.client.fileno()]) as child:
        gpu.client.close()
        conversation = Conversation(child, 20)
        loaded = conversation.load(FILE)
        assert isinstance(loaded, WorkerReply) and loaded.status is Status.DONE, loaded
        yield conversation


@pytest.mark.parametrize("way", WAYS.split())
def test_nothing_of_a_candidate_runs_between_two_calls(talk: Conversation, way: str) -> None:
    for _ in range(3):
        answer = talk.call(call(way, [EIGHT], None))
        assert isinstance(answer, WorkerReply) and answer.status is Status.DONE, answer
        assert numbers(answer.results[0].tensor) == [0.0] * 8
        time.sleep(0.02)  # a timer of a millisecond has many chances
