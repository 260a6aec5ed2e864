"""Starting, speaking with and ending a child."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.base import HarnessError
from warpsmith.isolation import (
    ChildOutcome,
    Frame,
    FrameError,
    FrameFault,
    Limit,
    Policy,
    ProcessLimits,
    collect_file,
    run,
    spawn,
    system_paths,
)

Attempt = Callable[..., ChildOutcome]
Running = Callable[[], list[int]]


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_passed_on(attempt: Attempt, code: int) -> None:
    outcome = attempt("exit", str(code))
    assert (outcome.exit_code, outcome.signal, outcome.stopped) == (code, None, None)
    assert outcome.ok == (code == 0)


@pytest.mark.parametrize(("what", "number"), [("abort", signal.SIGABRT), ("crash", signal.SIGSEGV)])
def test_the_signal_is_passed_on(attempt: Attempt, policy: Policy, what: str, number: signal.Signals) -> None:
    outcome = attempt(what)
    assert (outcome.exit_code, outcome.signal, outcome.stopped) == (None, number, None)
    assert number.name in outcome.describe(policy)


def test_stdin_is_given_whole(commons: Path, policy: Policy) -> None:
    given = os.urandom(3_000_000)
    assert run([commons / "hostile", "echo"], policy, stdin=given).stdout == given


def test_what_it_writes_stays_and_is_collected(attempt: Attempt, policy: Policy, workspace: Path) -> None:
    allowed = replace(policy, write=(workspace,))
    before = workspace.stat()
    assert attempt("write", "made", policy=allowed).stdout == b"ok\n"
    assert collect_file(workspace, "made", 10) == b""
    assert (workspace.stat().st_uid, workspace.stat().st_mode) == (before.st_uid, before.st_mode)


@pytest.mark.parametrize(("what", "name"), [("link", "link"), ("mkfifo", "pipe")])
def test_links_and_pipes_it_leaves_are_not_followed(
    attempt: Attempt, policy: Policy, workspace: Path, what: str, name: str
) -> None:
    assert attempt(what, name, policy=replace(policy, write=(workspace,))).stdout == b"ok\n"
    assert not isinstance(collect_file(workspace, name, 10_000), bytes)


def test_what_is_larger_than_allowed_is_not_collected(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 2048)
    refused = collect_file(tmp_path, "big", 1024)
    assert not isinstance(refused, bytes)
    assert "2 KiB; at most 1 KiB" in refused.reason


def test_a_program_that_is_not_there_is_our_fault(policy: Policy) -> None:
    with pytest.raises(HarnessError, match="/nowhere/program cannot be executed: No such file"):
        run(["/nowhere/program"], policy)
    with pytest.raises(HarnessError, match="'no-such-program' is not on the confined PATH"):
        run(["no-such-program"], policy)


def test_a_path_that_is_not_there_is_named(policy: Policy) -> None:
    with pytest.raises(FileNotFoundError, match="/nowhere/at/all does not exist"):
        run(["true"], replace(policy, read=(Path("/nowhere/at/all"),)))


def test_nothing_starts_without_what_the_policy_requires(commons: Path, policy: Policy) -> None:
    strict = replace(policy, seccomp="none", require=("seccomp",))
    with pytest.raises(HarnessError, match="does not grant seccomp, which the policy requires"):
        run([commons / "hostile", "exit", "0"], strict)


def test_frames_go_both_ways(judge: str, commons: Path, policy: Policy) -> None:
    frame = Frame(7, os.urandom(200_000))
    with spawn([commons / "hostile", "echo_frames"], policy) as child:
        for _ in range(3):
            assert child.send(frame) is None
            assert child.receive(5.0, kind=7) == frame
        child.kill()
        outcome = child.wait()
    assert (outcome.stopped, outcome.signal) == (Limit.KILLED, signal.SIGKILL)


def test_wrong_frames_are_values(commons: Path, policy: Policy) -> None:
    with spawn([commons / "hostile", "say", "this is not a frame at all"], policy) as child:
        assert _fault(child.receive(5.0)) is FrameFault.JUNK
    with spawn([commons / "hostile", "say", "short"], policy) as child:
        assert _fault(child.receive(5.0)) is FrameFault.SHORT
    with spawn([commons / "hostile", "exit", "0"], policy) as child:
        assert _fault(child.receive(5.0)) is FrameFault.MISSING
        assert child.wait().ok
        assert _fault(child.send(Frame(1, b"x"))) is FrameFault.MISSING
    with spawn([commons / "hostile", "sleep", "5"], policy) as child:
        assert _fault(child.receive(0.05)) is FrameFault.LATE
        assert _fault(child.send(Frame(1, b"x" * 10_000_000), timeout_s=0.05)) is FrameFault.LATE
    with spawn([commons / "hostile", "echo_frames"], policy) as child:
        child.send(Frame(1, b"x"))
        assert _fault(child.receive(5.0, kind=2)) is FrameFault.KIND


def test_a_surplus_is_seen_after_the_end(commons: Path, policy: Policy) -> None:
    with spawn([commons / "hostile", "say", "more"], policy) as child:
        assert child.wait().ok
        assert _fault(child.read_surplus()) is FrameFault.EXTRA


def test_passed_descriptors_follow_from_five(commons: Path, policy: Policy) -> None:
    out, into = os.pipe()
    with spawn([commons / "hostile", "descriptors"], policy, pass_fds=[into]) as child:
        os.close(into)
        assert child.wait().stdout.split()[:-1] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert os.read(out, 1) == b""
    os.close(out)


def test_a_child_outlives_the_thread_that_started_it(commons: Path, policy: Policy) -> None:
    children = []
    starter = threading.Thread(target=lambda: children.append(spawn([commons / "hostile", "sleep", "0.3"], policy)))
    starter.start()
    starter.join()
    with children[0] as child:
        assert child.wait().ok


def test_what_it_leaves_behind_dies_with_it(attempt: Attempt, running: Running) -> None:
    assert attempt("leave_behind").ok
    assert running() == []


def test_leaving_the_block_ends_the_tree(judge: str, commons: Path, policy: Policy, running: Running) -> None:
    with spawn([commons / "hostile", "fork_bomb"], replace(policy, limits=ProcessLimits(processes=200))) as child:
        assert child.confined.achieved
    assert running() == []


def test_no_orphan_survives_a_killed_judge(
    commons: Path, policy: Policy, running: Running, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from warpsmith.isolation import Policy, spawn\n"
        "child = spawn(['sh', '-c', sys.argv[1]], Policy(read=tuple(map(Path, sys.argv[2:]))))\n"
        "child.confined\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    program = commons / "hostile"
    command = f"{program} leave_behind; {program} sleep 55"
    judge = subprocess.Popen(
        [sys.executable, "-c", script, command, *map(str, policy.read)], stdout=subprocess.PIPE, text=True
    )
    assert judge.stdout is not None
    assert judge.stdout.readline() == "up\n"
    wait_until(lambda: len(running()) >= 2)
    judge.kill()
    judge.wait()
    judge.stdout.close()
    wait_until(lambda: running() == [])


@pytest.mark.usefixtures("own_places")
def test_torch_runs_and_a_hundred_gigabytes_are_named() -> None:
    policy = Policy(read=system_paths(), limits=ProcessLimits(wall_s=60, memory_bytes=4 << 30))
    script = "import torch; print(torch.ones(3).sum().item(), flush=True); torch.ones(25 * 10**9)"
    outcome = run([sys.executable, "-c", script], policy)
    assert outcome.stdout == b"3.0\n", outcome.stderr
    assert outcome.stopped is Limit.MEMORY
    assert outcome.describe(policy) == "it asked for more than 4 GiB of memory"


def test_many_children_at_once_stay_apart(commons: Path, policy: Policy) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: run([commons / "hostile", "echo"], policy, stdin=b"%d" % i), range(40)))
    assert [answer.stdout for answer in answers] == [b"%d" % i for i in range(40)]


def _fault(answer: Frame | FrameError | None) -> FrameFault | None:
    return answer.fault if isinstance(answer, FrameError) else None


def test_nothing_of_the_launcher_is_written_to_what_a_child_is_given() -> None:
    """Held where a cgroup is entered too: its descriptor may have a number that the child's are moved to."""
    pairs = [socket.socketpair() for _ in range(6)]
    given = [theirs.fileno() for _, theirs in pairs]
    with spawn(["/bin/true"], Policy(read=system_paths()), pass_fds=given) as child:
        for _, theirs in pairs:
            theirs.close()
        assert child.wait().ok
    for mine, _ in pairs:
        assert mine.recv(16) == b""
        mine.close()


def test_an_exchange_with_a_mute_child_ends_at_its_limit(commons: Path, policy: Policy) -> None:
    with spawn([commons / "hostile", "sleep", "30"], policy) as child:
        assert _fault(child.exchange(Frame(1), 0.6, 1, 100, spin_s=0.1).answer) is FrameFault.LATE
        child.kill()
        assert child.wait().signal == signal.SIGKILL, "it was still asleep"


def test_an_exchange_is_timed_until_the_answer_begins(commons: Path, policy: Policy) -> None:
    with spawn([commons / "hostile", "echo_frames"], policy) as child:
        found = child.exchange(Frame(1, b"x"), 5.0, 1, 100, spin_s=2.0)
        assert found.answer == Frame(1, b"x")
        assert 0 < found.seconds < 2.0
        child.kill()
        child.wait()
        assert _fault(child.exchange(Frame(1), 1.0, 1, 100, spin_s=0.1).answer) is FrameFault.MISSING
