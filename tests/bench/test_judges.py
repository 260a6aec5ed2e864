"""Judges, without a GPU: records come back, faults are told, and they die with whoever began them."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warpsmith.base import HarnessError, UsageError
from warpsmith.bench import judges as module
from warpsmith.bench.choices import Choices, Defence
from warpsmith.bench.judges import Job, Judge, Judges, pool_of_judges
from warpsmith.bench.run import grade
from warpsmith.records import Candidate, Direction, Group, Reason, Record, Verdict

SERVER = """
import os, threading, time
from warpsmith.base import UsageError
from warpsmith.bench.judges import run
from warpsmith.records import Environment, Record, StageResult, Verdict

def one(candidate, choices, seed):
    print("noise that must not reach the frames")
    word, _, rest = candidate.source.partition(" ")
    if word == "raise":
        raise ZeroDivisionError("by zero")
    if word == "refuse":
        raise UsageError("There is no such task.")
    if word == "die":
        os.write(2, b"these are its last words")
        os._exit(3)
    if word == "sleep":
        open(rest, "w").write(str(os.getpid()))
        time.sleep(60)
    assert prepared.wait(10)
    said = StageResult(stage="timing", verdict=Verdict.PASS, detail=f"{os.getpid()} {seed}")
    return Record(
        candidate=candidate, task_version="1", environment=Environment(device="d", hardware="h"), results=(said,)
    )

prepared = threading.Event()
run(one, prepared.set)
"""
PARENT = """
import sys
sys.path.insert(0, {tests!r})
from test_judges import CHOICES, asked
from warpsmith.bench.judges import Judge
Judge((sys.executable, {server!r})).grade(asked("sleep " + {mark!r}), CHOICES)
"""
CHOICES = Choices(device="cuda", cases=(Group.DEV,), without=frozenset({Defence.LINK}), baselines=("eager",))


def asked(source: str) -> Candidate:
    return Candidate(task="softmax", direction=Direction.FORWARD, source=source)


@pytest.fixture
def argv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return sys.executable, str(path)


@pytest.fixture
def judge(argv: tuple[str, ...]) -> Iterator[Judge]:
    with closing(Judge(argv)) as found:
        yield found


def test_a_job_is_what_it_was_on_the_other_side() -> None:
    job = Job(candidate=asked("x"), choices=CHOICES, seed=7)
    assert Job.parse(job.text()) == job


def test_records_come_back_and_prints_do_not_disturb(judge: Judge) -> None:
    for seed in (3, None):
        found = judge.grade(asked("fine"), CHOICES, seed)
        assert found.candidate == asked("fine") and found.results[0].detail.endswith(f" {seed}")


def test_a_fault_of_ours_is_told_and_the_next_candidate_is_evaluated(judge: Judge) -> None:
    with pytest.raises(HarnessError, match="ZeroDivisionError: by zero"):
        judge.grade(asked("raise"), CHOICES)
    assert judge.grade(asked("fine"), CHOICES).verdict is Verdict.PASS


def test_a_wrong_question_is_the_asker_s(judge: Judge) -> None:
    with pytest.raises(UsageError, match="no such task"):
        judge.grade(asked("refuse"), CHOICES)


def test_a_process_that_dies_has_last_words_and_a_successor(judge: Judge) -> None:
    with pytest.raises(HarnessError, match="these are its last words"):
        judge.grade(asked("die"), CHOICES)
    assert judge.grade(asked("fine"), CHOICES).verdict is Verdict.PASS


def test_a_candidate_whose_judge_died_has_a_record_without_a_verdict(argv: tuple[str, ...]) -> None:
    with closing(Judges(1, argv)) as judges:
        found = judges.grade(asked("die"), Choices(device="vgpu"))
        assert (found.verdict, found.results[0].reason) == (Verdict.FAULT, Reason.HARNESS)
        assert "these are its last words" in found.results[0].detail
        assert found.candidate == asked("die")
        assert judges.grade(asked("fine"), CHOICES).verdict is Verdict.PASS


def test_candidates_go_to_the_judges_that_are_free(argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ARGV", argv)
    monkeypatch.setattr(module, "Judges", lambda count: Judges(count, argv))
    with pool_of_judges(CHOICES, 2) as (threads, by):
        found = list(threads.map(lambda n: by(asked(f"fine {n}"), CHOICES, n), range(6)))
    pids = {one.results[0].detail.split()[0] for one in found}
    assert 1 <= len(pids) <= 2
    assert [one.results[0].detail.split()[1] for one in found] == list("012345")
    assert all(_state(int(pid)) == "Z" for pid in pids), "they end with the pool"


def test_it_dies_with_whoever_began_it(argv: tuple[str, ...], tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = PARENT.format(tests=str(Path(__file__).parent), server=argv[1], mark=str(mark))
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        pid = int(wait_for(lambda: mark.read_text() if mark.exists() else ""))
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: "" if _state(pid) != "Z" else "gone")


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


@pytest.mark.parametrize(
    ("device", "jobs", "begun"), [("vgpu", 8, 0), ("cuda", 1, 0), ("cuda", 2, 2), ("cuda", 99, module.MOST)]
)
def test_processes_are_begun_where_several_share_a_gpu(
    device: str, jobs: int, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    class Begun:
        def __init__(self, count: int) -> None:
            self._count = count

        def grade(self, candidate: Candidate, choices: Choices, seed: int | None = None) -> Record:
            raise AssertionError("nobody is asked here")

        def close(self) -> None:
            done.append(self._count)

    monkeypatch.setattr(module, "Judges", Begun)
    with pool_of_judges(Choices(device=device), jobs) as (threads, by):
        assert threads.submit(int, "3").result() == 3
        assert (by is grade) is (begun == 0)
    assert done == ([begun] if begun else [])


def test_a_judge_compiles_before_torch_is_there() -> None:
    """It takes seconds to load, and no stage needs it before the compiler is done."""
    code = "import sys, warpsmith.bench.judges; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
