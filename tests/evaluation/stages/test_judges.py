"""Judges, without a GPU: records come back, faults are told, and they die with whoever began them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from warpsmith.base import HarnessError, UsageError
from warpsmith.evaluation.config import EvaluationConfig
from warpsmith.evaluation.processes import judges as module
from warpsmith.evaluation.processes.judges import Judge, Judges, pool_of_judges
from warpsmith.evaluation.processes.nursery import Nursery
from warpsmith.evaluation.run import PreparedEvaluation, grade, resume
from warpsmith.records import Candidate, Defence, Direction, Environment, Group, Reason, Record, StageResult, Verdict
from warpsmith.tasks.suite import suite_folder

PATIENCE_S = 120.0  # a bound on a hang, not a measurement
SERVER = """
import os, threading, time
from warpsmith.base import UsageError
from warpsmith.evaluation.processes.judges import run
from warpsmith.records import Reason, StageResult, Verdict

def one(begun):
    print("noise that must not reach the frames")
    word, _, rest = begun.record.candidate.source.partition(" ")
    if word == "raise":
        raise ZeroDivisionError("by zero")
    if word == "die":
        os.write(2, b"these are its last words")
        os._exit(3)
    if word == "refuse":
        raise UsageError("There is no such baseline.")
    if word == "fault":
        detail = str(os.getpid())
        said = StageResult(stage="check", verdict=Verdict.FAULT, reason=Reason.HARNESS, detail=detail)
        return begun.record.with_result(said)
    if word == "slow":
        open(rest, "w").write(str(os.getpid()))
        time.sleep(1)
    if word == "meet":
        open(rest + str(os.getpid()), "w").write("")
        while len(os.listdir(rest)) < 2:
            time.sleep(0.01)
    if word == "sleep":
        open(rest, "w").write(str(os.getpid()))
        time.sleep(60)
    assert prepared.wait(10)
    detail = f"{os.getpid()} {begun.seed} {begun.artifact}"
    return begun.record.with_result(StageResult(stage="timing", verdict=Verdict.PASS, detail=detail))

prepared = threading.Event()
run(one, lambda: None, prepared.set)
"""
PARENT = """
import sys
sys.path.insert(0, {tests!r})
from test_judges import prepared
from warpsmith.evaluation.processes.judges import Judge, Nursery
Judge(Nursery((sys.executable, {server!r}))).resume(prepared("sleep " + {mark!r}))
"""
INTERRUPTED = """
import signal, sys
sys.path.insert(0, {tests!r})
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
from test_judges import prepared
from warpsmith.evaluation.processes.judges import Judge, Nursery
print(Judge(Nursery((sys.executable, {server!r}))).resume(prepared("slow " + {mark!r})).verdict)
"""
CHOICES = EvaluationConfig(device="vgpu", cases=(Group.DEV,), without=frozenset({Defence.LINK}), baselines=("eager",))


def asked(source: str) -> Candidate:
    return Candidate(task="softmax", direction=Direction.FORWARD, source=source)


def prepared(source: str, *results: StageResult, config: EvaluationConfig = CHOICES) -> PreparedEvaluation:
    environment = Environment(device="d", hardware="h")
    record = Record(candidate=asked(source), task_version="1", environment=environment, results=results)
    return PreparedEvaluation(target="softmax", config=config, seed=7, record=record, artifact="x.so")


@pytest.fixture
def argv(home: Path) -> tuple[str, ...]:
    path = home / "server.py"
    path.write_text(SERVER)
    return sys.executable, str(path)


@pytest.fixture
def nursery(argv: tuple[str, ...]) -> Iterator[Nursery]:
    with closing(Nursery(argv)) as found:
        yield found


@pytest.fixture
def judge(nursery: Nursery) -> Iterator[Judge]:
    with closing(Judge(nursery)) as found:
        yield found


def test_what_was_begun_is_the_same_on_the_other_side() -> None:
    assert PreparedEvaluation.parse(prepared("x").text()) == prepared("x")


def test_records_come_back_and_prints_do_not_disturb(judge: Judge) -> None:
    for _ in range(2):
        found = judge.resume(prepared("fine"))
        assert found.candidate == asked("fine") and found.results[0].detail.endswith(" 7 x.so")


def test_a_fault_of_ours_is_told_and_the_next_candidate_is_evaluated(judge: Judge) -> None:
    with pytest.raises(HarnessError, match="ZeroDivisionError: by zero"):
        judge.resume(prepared("raise"))
    assert judge.resume(prepared("fine")).verdict is Verdict.PASS


def test_a_wrong_question_is_the_asker_s(judge: Judge) -> None:
    first = judge.resume(prepared("fine")).results[0].detail
    with pytest.raises(UsageError, match="no such baseline"):
        judge.resume(prepared("refuse"))
    assert judge.resume(prepared("fine")).results[0].detail == first, "there is nothing wrong with the judge"


def test_a_judge_whose_answer_cannot_be_read_is_replaced(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as small, pytest.raises(HarnessError, match="at most 10 are read"):
        small.setattr(module, "JOB_BYTES", 10)
        judge.resume(prepared("fine"))
    assert judge.resume(prepared("fine")).verdict is Verdict.PASS


def test_a_judge_that_is_at_fault_is_replaced(judge: Judge) -> None:
    first = judge.resume(prepared("fault"))
    assert first.verdict is Verdict.FAULT
    assert judge.resume(prepared("fine")).results[0].detail.split()[0] != first.results[0].detail


def test_judges_that_have_been_ended_are_not_begun_again(judge: Judge, nursery: Nursery) -> None:
    nursery.close()
    with pytest.raises(HarnessError, match="have been ended"):
        judge.resume(prepared("fine"))


def test_a_judge_outlives_its_parent_s_death_by_a_successor(judge: Judge, nursery: Nursery) -> None:
    first = int(judge.resume(prepared("fine")).results[0].detail.split()[0])
    os.kill(parent_of(first), signal.SIGKILL)
    wait_for(lambda: "gone" if _state(first) == "Z" else "")
    assert int(judge.resume(prepared("fine")).results[0].detail.split()[0]) != first


def test_a_judge_that_is_let_go_of_ends(judge: Judge) -> None:
    pid = int(judge.resume(prepared("fine")).results[0].detail.split()[0])
    judge.close()
    wait_for(lambda: "gone" if _state(pid) == "Z" else "")


def test_a_process_that_dies_has_last_words_and_a_successor(judge: Judge) -> None:
    with pytest.raises(HarnessError, match="these are its last words"):
        judge.resume(prepared("die"))
    assert judge.resume(prepared("fine")).verdict is Verdict.PASS


def test_a_parent_that_dies_before_there_is_a_child_is_quoted(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; sys.exit('no torch here')")
    with (
        closing(Nursery(argv)) as nursery,
        closing(Judge(nursery)) as judge,
        pytest.raises(HarnessError, match="no torch here"),
    ):
        judge.resume(prepared("fine"))


COMPILED = StageResult(stage="compile", verdict=Verdict.PASS)
REFUSED = StageResult(stage="compile", verdict=Verdict.FAIL, reason=Reason.COMPILE_ERROR, detail="a typo")
STATIC = StageResult(stage="static", verdict=Verdict.PASS)


@pytest.mark.parametrize(
    ("results", "until", "left"),
    [
        ((STATIC, COMPILED), "", ["check", "timing"]),
        ((STATIC, COMPILED), "check", ["check"]),
        ((STATIC, COMPILED), "compile", []),
        ((STATIC, REFUSED), "", []),
    ],
)
def test_what_is_left_follows_from_what_was_done(results: Sequence[StageResult], until: str, left: list[str]) -> None:
    one = prepared("x", *results, config=EvaluationConfig(device="vgpu", until=until))
    assert [row.name for row in one.remaining_stages] == left


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that refuses a typo and nothing else."""

    def made(candidate: Candidate, config: EvaluationConfig, seed: int | None = None) -> PreparedEvaluation:
        one = REFUSED if candidate.source == "typo" else COMPILED
        return prepared(candidate.source, STATIC, one, config=EvaluationConfig(device="vgpu")).model_copy(
            update={"seed": seed or 0}
        )

    monkeypatch.setattr(module, "prepare", made)


@pytest.mark.usefixtures("compiled")
def test_a_candidate_whose_judge_died_has_a_record_without_a_verdict(argv: tuple[str, ...]) -> None:
    with closing(Judges(1, argv)) as judges:
        found = judges.grade(asked("die"), CHOICES)
        assert (found.verdict, found.results[-1].stage) == (Verdict.FAULT, "check")
        assert found.results[-1].reason is Reason.HARNESS and "these are its last words" in found.results[-1].detail
        assert judges.grade(asked("fine"), CHOICES).verdict is Verdict.PASS


@pytest.mark.usefixtures("compiled")
def test_no_judge_is_asked_for_what_does_not_compile() -> None:
    with closing(Judges(1, (sys.executable, "-c", "raise SystemExit('asked')"))) as judges:
        assert judges.grade(asked("typo"), CHOICES).results[-1] == REFUSED


@pytest.mark.usefixtures("compiled")
def test_candidates_go_to_the_judges_that_are_free(
    argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "at").mkdir()
    monkeypatch.setattr(module, "Judges", lambda count, **_uuids: Judges(count, argv))
    with pool_of_judges(EvaluationConfig(device="rehearsed"), 2) as (threads, by):
        found = list(threads.map(lambda n: by(asked(f"meet {tmp_path}/at/"), CHOICES, n), range(6)))
    pids = {one.results[-1].detail.split()[0] for one in found}
    assert len(pids) == 2, "the first one waits for another"
    assert [one.results[-1].detail.split()[1] for one in found] == list("012345")
    for pid in pids:  # they end with the pool
        wait_for(lambda pid=pid: "gone" if _state(int(pid)) == "Z" else "")


def test_a_seed_is_judged_as_in_this_process() -> None:
    """Without a double: the judge's own program, on the virtual GPU."""
    source = (suite_folder("max_pool") / "seed_forward.cu").read_text()
    candidate = Candidate(task="max_pool", direction=Direction.FORWARD, source=source)
    config = EvaluationConfig(device="vgpu", cases=(Group.SMOKE,))
    here = grade(candidate, config, 5)
    with closing(Judges(1)) as judges:
        there = judges.grade(candidate, config, 5)
    assert (there.verdict, there.candidate, there.options) == (Verdict.PASS, here.candidate, here.options)
    assert [one.stage for one in there.results] == [one.stage for one in here.results]
    assert there.timing == here.timing


def test_an_interrupt_at_the_terminal_is_not_for_judges(argv: tuple[str, ...], tmp_path: Path) -> None:
    """It goes to the whole group of processes; what is being evaluated is for whoever asked to end or not."""
    mark = tmp_path / "pid"
    code = INTERRUPTED.format(tests=str(Path(__file__).parent), server=argv[1], mark=str(mark))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        wait_for(lambda: mark.read_text() if mark.exists() else "")
        os.killpg(parent.pid, signal.SIGINT)
        said, _ = parent.communicate(timeout=PATIENCE_S)
    assert said.split() == ["interrupted", "pass"]


@pytest.mark.usefixtures("compiled")
def test_an_interrupt_ends_what_is_still_evaluated(
    argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Judges", lambda count, **_uuids: Judges(count, argv))
    mark = tmp_path / "pid"
    with pytest.raises(KeyboardInterrupt), pool_of_judges(EvaluationConfig(device="rehearsed"), 2) as (threads, by):
        asleep = threads.submit(by, asked(f"sleep {mark}"), CHOICES)
        wait_for(lambda: mark.read_text() if mark.exists() else "")
        raise KeyboardInterrupt
    assert asleep.result().verdict is Verdict.FAULT, "it would sleep for a minute, and pass"


def test_what_waits_is_not_evaluated_after_an_interrupt() -> None:
    go = threading.Event()
    with pytest.raises(KeyboardInterrupt), pool_of_judges(EvaluationConfig(device="vgpu"), 1) as (threads, _):
        first, second = threads.submit(go.wait, 20), threads.submit(int, "3")
        threading.Timer(0.2, go.set).start()
        raise KeyboardInterrupt
    assert first.result() and second.cancelled()


def test_a_task_that_changed_while_a_kernel_was_compiled_is_no_verdict() -> None:
    with pytest.raises(HarnessError, match="Task softmax was changed"):
        resume(prepared("x", STATIC, COMPILED))  # of version 1, which no task of ours has


def test_a_judge_that_could_not_use_cuda_begins_again_as_a_process_of_its_own(tmp_path: Path) -> None:
    """Whatever it answers, it is the program's own answer."""
    path = tmp_path / "poisoned.py"
    path.write_text(
        "from warpsmith.evaluation.processes import judges\n"
        "judges.is_without_cuda = lambda: True\n"
        "judges.run(lambda begun: 1 / 0, lambda: None, lambda: None)\n"
    )
    with (
        closing(Nursery((sys.executable, str(path)))) as nursery,
        closing(Judge(nursery)) as judge,
        pytest.raises(HarnessError, match="Task softmax was changed"),
    ):
        judge.resume(prepared("x", STATIC, COMPILED))


def test_it_dies_with_whoever_began_it(argv: tuple[str, ...], tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = PARENT.format(tests=str(Path(__file__).parent), server=argv[1], mark=str(mark))
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        pid = int(wait_for(lambda: mark.read_text() if mark.exists() else ""))
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: "" if _state(pid) != "Z" else "gone")


def wait_for(look: Callable[[], str]) -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not happen in {PATIENCE_S:g} s")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.parametrize(
    ("device", "jobs", "begun"),
    [("vgpu", 8, 0), ("rehearsed", 1, 0), ("rehearsed", 2, 2), ("rehearsed", 99, module.MOST)],
)
def test_processes_are_begun_where_several_share_a_gpu(
    device: str, jobs: int, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    class Begun:
        def __init__(self, count: int, **_uuids: object) -> None:
            self._count = count

        def grade(self, candidate: Candidate, config: EvaluationConfig, seed: int | None = None) -> Record:
            raise AssertionError("nobody is asked here")

        def close(self) -> None:
            done.append(self._count)

    monkeypatch.setattr(module, "Judges", Begun)
    with pool_of_judges(EvaluationConfig(device=device), jobs) as (threads, by):
        assert threads.submit(int, "3").result() == 3
        assert (by is grade) is (begun == 0)
    assert done == ([begun] if begun else [])


def test_whoever_compiles_does_not_wait_for_torch() -> None:
    """It takes seconds to load, and no stage needs it before the compiler is done."""
    code = "import sys, warpsmith.evaluation.processes.judges; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
