"""The resident pool: who is served, which evaluator serves, and when the pool ends. Evaluator processes are doubles."""

import asyncio
import json
import os
import socket
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from warpsmith.base import HarnessError, MachineError, UsageError
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.processes.nursery import ForkedChild
from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.pool import EvaluationRequest, PoolClient, find_pool, stop_pool
from warpsmith.pool.executor import absolute_task
from warpsmith.pool.protocol import (
    MESSAGE_BYTES,
    REPLY,
    EvaluationReply,
    Greeting,
    environment_digest,
    run_folder,
    socket_path,
)
from warpsmith.pool.server import Evaluators, PoolServer, listen
from warpsmith.records import Candidate, Record, StageResult, Verdict

LINE = json.loads((Path(__file__).parents[1] / "golden/v1-empty-05f1ce3a0318d2f98672db1fa11caca8.json").read_text())
PATIENCE_S = 120.0
CONFIG = EvaluationConfig(device="vgpu")

Answer = Callable[[EvaluationRequest], EvaluationReply]


def candidate(source: str = "text", task: str = "softmax") -> Candidate:
    return Candidate.from_fields(task=task, direction="forward", source=source, language="torch", macros={})


def passing(request: EvaluationRequest) -> EvaluationReply:
    record = Record.model_validate(LINE)
    return EvaluationReply(record=record.model_copy(update={"candidate": request.candidate}))


class FakeEvaluators:
    """Evaluator processes as threads; `forked` counts them, and each thread has a number."""

    def __init__(self, answer: Callable[[int, EvaluationRequest], EvaluationReply]) -> None:
        self._answer, self.forked, self._parent_log = answer, 0, tempfile.TemporaryFile()  # noqa: SIM115 - closed with the double
        weakref.finalize(self, self._parent_log.close)

    def fork(self) -> ForkedChild:
        number, self.forked = self.forked, self.forked + 1
        reading, requests = os.pipe()
        replies, writing = os.pipe()
        Thread(target=self._serve, args=[number, reading, writing], daemon=True).start()
        return ForkedChild(requests, replies, tempfile.TemporaryFile(), self._parent_log)

    def _serve(self, number: int, reading: int, writing: int) -> None:
        requests, replies = FrameReader(reading), FrameWriter(writing)
        while not isinstance(frame := requests.read(PATIENCE_S, MESSAGE_BYTES), FrameError):
            reply = self._answer(number, EvaluationRequest.parse(frame.payload))
            replies.write(Frame(REPLY, reply.text().encode()), PATIENCE_S)
        os.close(reading)
        os.close(writing)


class Pools:
    """Starts pools on sockets of a temporary run folder."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []

    def start(
        self,
        evaluators: Evaluators,
        greeting: Greeting | None = None,
        idle_s: float = 1e9,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> PoolClient:
        server, path = PoolServer(evaluators, idle_s, greeting or Greeting.here(), clock), socket_path()
        listener = listen(path)

        def run() -> None:
            with closing(evaluators), listener:
                server.run(listener)
            path.unlink(missing_ok=True)

        thread = Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)
        return PoolClient(path)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.fixture
def pools(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pools]:
    with tempfile.TemporaryDirectory() as folder:  # a short path: a socket's name has at most 107 bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        found = Pools()
        yield found
        stop_pool()
        found.join()


def test_a_request_gets_its_record_and_counts(pools: Pools) -> None:
    client = pools.start(Evaluators(FakeEvaluators(lambda _, request: passing(request)).fork, 2))
    record = client.grade(candidate("one"), CONFIG)
    again = asyncio.run(client.submit(EvaluationRequest.of(candidate("two"), CONFIG)))
    assert (record.candidate.source, again.candidate.source) == ("one", "two")
    found = client.status()
    assert (found.done, found.faults, found.busy, found.waiting, found.evaluators) == (2, 0, 0, 0, 2)


def test_refusals_and_errors_reach_the_caller(pools: Pools) -> None:
    replies = {"bad": EvaluationReply(refused="Option x."), "error": EvaluationReply(error="OSError: full")}
    client = pools.start(Evaluators(FakeEvaluators(lambda _, request: replies[request.candidate.source]).fork, 1))
    with pytest.raises(UsageError, match="Option x"):
        client.grade(candidate("bad"), CONFIG)
    with pytest.raises(HarnessError, match="full"):
        client.grade(candidate("error"), CONFIG)


def test_an_evaluator_is_replaced_after_a_fault_only(pools: Pools) -> None:
    def answer(number: int, request: EvaluationRequest) -> EvaluationReply:
        if request.candidate.source != "fault":
            return passing(request)
        record = Record.model_validate(LINE)
        failed = StageResult(stage="check", verdict=Verdict.FAULT, reason="harness", detail="gone")
        return EvaluationReply(record=record.model_copy(update={"results": (failed,)}))

    fakes = FakeEvaluators(answer)
    client = pools.start(Evaluators(fakes.fork, 1))
    client.grade(candidate("good"), CONFIG)
    assert fakes.forked == 1
    assert client.grade(candidate("fault"), CONFIG).verdict is Verdict.FAULT
    client.grade(candidate("good"), CONFIG)
    assert (fakes.forked, client.status().faults) == (2, 1)


def test_a_task_goes_to_the_evaluator_that_has_it_open(pools: Pools) -> None:
    used: list[tuple[str, int]] = []

    def answer(number: int, request: EvaluationRequest) -> EvaluationReply:
        used.append((request.candidate.task, number))
        return passing(request)

    client = pools.start(Evaluators(FakeEvaluators(answer).fork, 2))
    for task in ("softmax", "linear", "softmax", "linear", "softmax"):
        client.grade(candidate(task=task), CONFIG)
    numbers = dict(used)
    assert used == [(task, numbers[task]) for task, _ in used] and len(set(numbers.values())) == 2


def test_a_command_that_leaves_frees_its_evaluator(
    pools: Pools, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    begun, never = Event(), Event()

    def answer(number: int, request: EvaluationRequest) -> EvaluationReply:
        if request.candidate.source == "endless":
            begun.set()
            never.wait(PATIENCE_S)
        return passing(request)

    client = pools.start(Evaluators(FakeEvaluators(answer).fork, 1))

    async def cancel() -> None:
        waiting = asyncio.ensure_future(client.submit(EvaluationRequest.of(candidate("endless"), CONFIG)))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel())
    wait_until(lambda: client.status().busy == 0)
    assert client.grade(candidate("next"), CONFIG).candidate.source == "next"
    never.set()


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (Greeting(package="other", environment=environment_digest()), "another version of warpsmith"),
        (Greeting.here().model_copy(update={"environment": "other"}), "other environment variables"),
    ],
)
def test_a_pool_of_another_kind_is_not_used(pools: Pools, greeting: Greeting, why: str) -> None:
    client = pools.start(Evaluators(FakeEvaluators(lambda _, request: passing(request)).fork, 1), greeting)
    told: list[str] = []
    assert find_pool(told.append) is None
    assert why in told[0] and "`warpsmith pool stop`" in told[0]
    with pytest.raises(MachineError, match=why):
        client.grade(candidate(), CONFIG)
    assert client.status().evaluators == 1  # the state can be asked for, and the pool can be stopped


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pool_ends_when_it_is_idle(pools: Pools, wait_until: Callable[[Callable[[], object]], None]) -> None:
    clock = Clock()
    evaluators = Evaluators(FakeEvaluators(lambda _, request: passing(request)).fork, 1)
    client = pools.start(evaluators, idle_s=60.0, clock=clock)
    client.grade(candidate(), CONFIG)
    assert find_pool() is not None

    def has_ended() -> bool:
        clock.now += 61.0  # again at each look: a thread of the pool may close its connection late
        return not socket_path().exists()

    wait_until(has_ended)
    assert find_pool() is None


def test_a_pool_that_evaluates_is_not_idle(pools: Pools) -> None:
    begun, seen, clock = Event(), Event(), Clock()

    def answer(_: int, request: EvaluationRequest) -> EvaluationReply:
        begun.set()
        seen.wait(PATIENCE_S)
        return passing(request)

    client = pools.start(Evaluators(FakeEvaluators(answer).fork, 1), idle_s=60.0, clock=clock)
    found: list[Record] = []
    thread = Thread(target=lambda: found.append(client.grade(candidate(), CONFIG)))
    thread.start()
    begun.wait(PATIENCE_S)
    clock.now = 1000.0
    assert client.status().busy == 1 and find_pool() is not None  # each connection makes the pool look once more
    seen.set()
    thread.join(PATIENCE_S)
    assert len(found) == 1


def test_without_a_pool_commands_find_none(pools: Pools) -> None:
    told: list[str] = []
    assert find_pool(told.append) is None
    with socket.socket(socket.AF_UNIX) as dead:  # the file that a killed pool leaves
        dead.bind(str(socket_path()))
    assert find_pool(told.append) is None and told == []
    assert stop_pool() is None and not socket_path().exists()


def test_the_socket_is_for_this_user_alone(pools: Pools) -> None:
    pools.start(Evaluators(FakeEvaluators(lambda _, request: passing(request)).fork, 1))
    assert socket_path().stat().st_mode & 0o777 == 0o600
    assert run_folder().stat().st_mode & 0o777 == 0o700
    folder = run_folder()
    folder.chmod(0o755)
    with pytest.raises(MachineError, match="only this user can enter"):
        run_folder()
    folder.chmod(0o700)


def test_a_request_names_its_task_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("import torch\n\ndef double(x):\n    return x * 2\n")
    monkeypatch.chdir(tmp_path)
    assert absolute_task("softmax") == "softmax"
    assert absolute_task("mine.py:double") == f"{tmp_path / 'mine.py'}:double"
