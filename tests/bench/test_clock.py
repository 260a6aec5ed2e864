"""The clock's process, without a GPU: results come back, faults are told, and it dies with whoever began it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.base import HarnessError
from warpsmith.bench import clock as module
from warpsmith.bench.choices import Choices, Defence
from warpsmith.bench.clock import Clock, Job, pool_with_clock
from warpsmith.bench.lease import Need
from warpsmith.bench.run import _under_one_lease
from warpsmith.bench.table import Row
from warpsmith.records import Candidate, Direction, Environment, Group, Record, StageResult, Verdict

SERVER = """
import os, time
from warpsmith.bench.clock import run
from warpsmith.bench.lease import Need, lease
from warpsmith.records import StageResult, Verdict

def one(job):
    print("noise that must not reach the frames")
    if job.artifact == "raise":
        raise ZeroDivisionError("by zero")
    if job.artifact == "die":
        os.write(2, b"these are its last words")
        os._exit(3)
    if job.artifact == "sleep":
        open(job.target, "w").write(str(os.getpid()))
        time.sleep(60)
    return StageResult(stage="timing", verdict=Verdict.PASS, detail=f"{job.candidate.task} {job.launches} {prepared}")

def prepare():
    with lease(Need.ALONE):
        prepared.append("prepared")

prepared = []
run(one, prepare)
"""
PARENT = """
import sys
sys.path.insert(0, {tests!r})
from test_clock import job
from warpsmith.bench.clock import Clock
clock = Clock((sys.executable, {server!r}))
with clock.turn():
    clock.time(job("sleep", {mark!r}))
"""


def job(artifact: str, target: str = "softmax") -> Job:
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source="// nothing")
    choices = Choices(device="cuda", cases=(Group.DEV,), without=frozenset({Defence.LINK}), baselines=("eager",))
    return Job(
        target=target,
        candidate=candidate,
        choices=choices,
        seed=7,
        artifact=artifact,
        launches=2,
        recorded="calls",
        environment=Environment(device="cuda", hardware="H200", torch="2"),
    )


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def clock(server: Path) -> Iterator[Clock]:
    found = Clock((sys.executable, str(server)))
    with found.turn():
        pass
    yield found
    found.close()


def test_a_job_is_what_it_was_on_the_other_side() -> None:
    assert Job.parse(job("a").text()) == job("a")


def test_results_come_back_and_prints_do_not_disturb(clock: Clock) -> None:
    for _ in range(2):
        assert clock.time(job("fine")) == StageResult(
            stage="timing", verdict=Verdict.PASS, detail="softmax 2 ['prepared']"
        )


def test_a_fault_of_ours_is_told_and_the_next_job_is_timed(clock: Clock) -> None:
    with pytest.raises(HarnessError, match="ZeroDivisionError: by zero"):
        clock.time(job("raise"))
    assert clock.time(job("fine")).verdict is Verdict.PASS


def test_a_process_that_dies_has_last_words_and_a_successor(clock: Clock) -> None:
    with pytest.raises(HarnessError, match="these are its last words"):
        clock.time(job("die"))
    with clock.turn():
        assert clock.time(job("fine")).verdict is Verdict.PASS


def test_it_dies_with_whoever_began_it(server: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = PARENT.format(tests=str(Path(__file__).parent), server=str(server), mark=str(mark))
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        pid = int(wait_for(lambda: mark.read_text() if mark.exists() else ""))
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: "" if Path(f"/proc/{pid}").exists() and _state(pid) != "Z" else "gone")


def wait_for(look: Callable[[], str]) -> str:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in 20 s")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_process_that_cannot_begin_is_told_to_everybody_who_waits() -> None:
    clock = Clock((sys.executable, "-c", "raise SystemExit('there is no GPU')"))
    for _ in range(2):
        with pytest.raises(HarnessError, match="there is no GPU"), clock.turn():
            pass
    clock.close()


def test_whoever_waits_for_it_holds_no_lease(server: Path) -> None:
    """It takes the GPU to begin: a candidate that held it meanwhile would wait for ever."""
    with closing(Clock((sys.executable, str(server)))) as clock:
        desk: Any = SimpleNamespace(clock=clock)
        row = Row("timing", lambda desk: lambda record: desk.clock.time(job("fine")), Need.ALONE)
        record = Record(
            candidate=job("fine").candidate, task_version="1", environment=Environment(device="d", hardware="h")
        )
        assert _under_one_lease(record, desk, Need.ALONE, [row]).results[0].detail == "softmax 2 ['prepared']"


@pytest.mark.parametrize(("device", "jobs", "begun"), [("vgpu", 8, False), ("cuda", 1, False), ("cuda", 2, True)])
def test_a_clock_is_begun_where_several_are_timed_on_a_gpu(
    device: str, jobs: int, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Begun:
        def close(self) -> None:
            done.append("closed")

    monkeypatch.setattr(module, "Clock", Begun)
    monkeypatch.setattr(module, "warming", nullcontext)
    with pool_with_clock(Choices(device=device), jobs) as (threads, found):
        assert threads.submit(int, "3").result() == 3
        assert (found is not None) is begun
    assert done == (["closed"] if begun else [])
