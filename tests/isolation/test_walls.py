"""What a confined child cannot reach, whoever the judge is."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.isolation import ChildOutcome, Policy, run

Answer = Callable[..., str]
Needs = Callable[[str], None]
PARTS = (
    "user_ns pid_ns net_ns ipc_ns mount_ns uts_ns readonly_root private_tmp "
    "no_new_privs capabilities uid seccomp landlock rlimits cgroup"
)


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/hostname", "/root/.bashrc", __file__])
def test_files_that_were_not_named_are_not_there(answer: Answer, path: str) -> None:
    assert answer("read", path) in ("ENOENT", "EACCES")


@pytest.mark.parametrize("path", ["/usr/bin/planted", "/planted", "/etc/passwd"])
def test_nothing_outside_is_written(answer: Answer, path: str) -> None:
    assert answer("write", path) in ("EROFS", "EACCES")
    assert not Path("/usr/bin/planted").exists()


def test_a_readable_folder_is_not_writable(answer: Answer, commons: Path) -> None:
    assert answer("write", str(commons / "planted")) in ("EROFS", "EACCES")
    assert answer("read", str(commons / "hostile")) == "ok"


def test_its_tmp_is_private(answer: Answer, needs: Needs) -> None:
    needs("private_tmp")
    assert answer("write", "/tmp/warpsmith-planted") == "ok"
    assert not Path("/tmp/warpsmith-planted").exists()


@pytest.mark.parametrize("what", ["tcp", "udp", "netlink"])
def test_there_is_no_network(answer: Answer, what: str) -> None:
    assert answer(what) == "EACCES"


def test_no_network_even_without_the_filter(answer: Answer, policy: Policy, needs: Needs) -> None:
    needs("net_ns")
    with socket.create_server(("127.0.0.1", 0)):
        assert answer("tcp", policy=replace(policy, seccomp="none")) in ("ENETUNREACH", "EACCES", "ECONNREFUSED")


def test_a_pair_of_local_sockets_is_allowed(answer: Answer) -> None:
    assert answer("socketpair") == "ok"


CALLS = "ptrace vm_read mount remount unshare clone_ns io_uring bpf keyctl perf memfd raise_limit device"


@pytest.mark.parametrize("what", CALLS.split())
def test_privileged_calls_are_refused(answer: Answer, what: str) -> None:
    assert answer(what) in ("EPERM", "EACCES")


def test_nobody_becomes_root(answer: Answer, needs: Needs) -> None:
    needs("uid")
    assert answer("setuid") in ("EPERM", "EINVAL")


def test_clone3_is_unknown_so_that_libc_falls_back(answer: Answer) -> None:
    assert answer("clone3") == "ENOSYS"


def test_the_judge_is_neither_visible_nor_killable(answer: Answer, needs: Needs) -> None:
    needs("pid_ns")
    assert answer("kill", str(os.getpid())) in ("ESRCH", "EPERM")
    assert answer("kill_parent") == "EPERM"
    assert answer("parent_memory") in ("EACCES", "EPERM")


def test_only_its_own_processes_are_in_proc(attempt: Callable[..., ChildOutcome], needs: Needs) -> None:
    needs("pid_ns")
    assert attempt("processes").stdout.split() == [b"1", b"2", b"ok"]


def test_it_inherits_neither_environment_nor_descriptors(
    attempt: Callable[..., ChildOutcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    with Path(__file__).open() as held:
        os.set_inheritable(held.fileno(), True)
        assert attempt("descriptors").stdout.split() == [b"0", b"1", b"2", b"ok"]
    assert b"secret" not in attempt("environment").stdout


def test_the_child_is_somebody_else_where_that_is_said(attempt: Callable[..., ChildOutcome], judge: str) -> None:
    outcome = attempt("identity")
    uid = int(outcome.stdout.split()[0])
    assert (uid > 60000) == ("uid" in outcome.confined.achieved)
    assert uid > 60000 or uid in (1000, os.geteuid())


def test_two_children_of_root_are_two_people(attempt: Callable[..., ChildOutcome], needs: Needs) -> None:
    needs("uid")
    first, second = (int(attempt("identity").stdout.split()[0]) for _ in range(2))
    assert first != second or first == 65534  # nobody, where the machine's map of uids ends early


def test_what_was_achieved_is_reported(attempt: Callable[..., ChildOutcome], judge: str) -> None:
    confined = attempt("exit", "0").confined
    refused = {line.split(": ")[0] for line in confined.missing}
    assert set(confined.achieved) | refused == set(PARTS.split())
    assert not set(confined.achieved) & refused
    assert all(line.split(": ")[1] for line in confined.missing)
    assert ("uid" in confined.achieved) <= (os.geteuid() == 0 and judge in ("own", "subordinate"))
    if confined.form is None:
        assert any(part in line for line in confined.missing for part in ("_ns", "landlock", "seccomp"))
    assert {"no_new_privs", "capabilities", "rlimits"} <= set(confined.achieved)


@pytest.mark.usefixtures("own_places")
@pytest.mark.parametrize("shelf", [None, "/dev/shm"], ids=["disk", "memory"])
def test_folders_of_the_owner_alone_are_shown_to_the_child(commons: Path, policy: Policy, shelf: str | None) -> None:
    secret = Path(tempfile.mkdtemp(dir=shelf))
    (secret / "task.py").write_text("x")
    (secret / "task.py").chmod(0o600)
    allowed = replace(policy, read=(*policy.read, secret))
    assert run([commons / "hostile", "read", str(secret / "task.py")], allowed).stdout == b"ok\n"
    assert secret.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(secret)
