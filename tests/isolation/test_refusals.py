"""Machines that refuse a part: confinement goes on with the rest, says what is missing, and still holds its limits.

A user namespace whose own bounds on namespaces are zero plays such a machine.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.base import Home
from warpsmith.isolation import Policy
from warpsmith.isolation.launcher import launcher

SCRIPT = """
import json, sys
from pathlib import Path
from warpsmith.isolation import Policy, ProcessLimits, run
program, *read = sys.argv[1:]
policy = Policy(read=tuple(map(Path, read)), limits=ProcessLimits(wall_s=10, memory_bytes=128 << 20))
runs = [run([program, *words], policy) for words in
        (["leave_behind"], ["private_pages"], ["write", "mine"], ["write", "/usr/planted"], ["list", "/home"], ["tcp"])]
print(json.dumps({
    "achieved": runs[0].confined.achieved,
    "missing": dict(line.split(": ", 1) for line in runs[0].confined.missing),
    "stopped": [one.stopped and one.stopped.name for one in runs],
    "answers": [one.stdout.decode().strip() for one in runs],
}))
"""
WITHOUT_USER_NAMESPACES = subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode != 0
pytestmark = pytest.mark.skipif(WITHOUT_USER_NAMESPACES, reason="no user namespace to play another machine in")
ALL = ("mnt", "pid", "net", "ipc", "uts", "user")
NAMES = {"mnt": "mount_ns", "pid": "pid_ns", "net": "net_ns", "ipc": "ipc_ns", "uts": "uts_ns", "user": "user_ns"}


def on_a_machine_without(
    kinds: tuple[str, ...], commons: Path, script: str, read: tuple[Path, ...]
) -> subprocess.CompletedProcess[str]:
    """A judge's script where these kinds of namespaces cannot be made."""
    bounds = "; ".join(f"echo 0 > /proc/sys/user/max_{kind}_namespaces" for kind in kinds)
    command = f'set -e; {bounds}; exec "$@"'
    words = [sys.executable, "-c", script, str(commons / "hostile"), *map(str, read)]
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command, "sh", *words],
        env=_environment(commons),
        capture_output=True,
        text=True,
        timeout=120,
    )


def found_without(kinds: tuple[str, ...], commons: Path, read: tuple[Path, ...]) -> Any:
    """What the attempts find there."""
    done = on_a_machine_without(kinds, commons, SCRIPT, read)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _environment(commons: Path) -> dict[str, str]:
    source = Path(warpsmith.__file__).parents[1]
    return {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(commons / "home")}


@pytest.fixture(scope="module")
def prepared(commons: Path) -> Path:
    """The launcher where the nested judge looks for it, so that it is not built a second time."""

    built = launcher()
    place = commons / "home" / "cache" / built.relative_to(Home.locate().cache)
    place.parent.mkdir(parents=True)
    place.write_bytes(built.read_bytes())
    place.chmod(0o755)
    return commons


@pytest.mark.parametrize("kinds", [*((kind,) for kind in ALL), ALL], ids="+".join)
def test_a_refused_part_is_named_and_the_rest_holds(
    kinds: tuple[str, ...], prepared: Path, policy: Policy, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    found = found_without(kinds, prepared, policy.read)
    assert {NAMES[kind] for kind in kinds} <= set(found["missing"])
    assert {"no_new_privs", "capabilities", "seccomp", "landlock", "rlimits"} <= set(found["achieved"])
    assert "No space left" in found["missing"][NAMES[kinds[-1]]]
    assert found["stopped"] == [None, "MEMORY", None, None, None, None]
    behind, _, own, system, other, network = found["answers"]
    assert (behind, own) == ("ok", "ok")
    assert all(answer.isdigit() for answer in (system, other, network))
    left = list(Path("/tmp").glob("warpsmith-confined-*"))  # those of tests beside this one, which remove theirs soon
    wait_until(lambda: not any(folder.exists() for folder in left))


def test_without_a_mount_namespace_there_is_no_root_of_its_own(prepared: Path, policy: Policy) -> None:
    missing = found_without(("mnt",), prepared, policy.read)["missing"]
    assert missing["readonly_root"] == missing["private_tmp"] == "needs a mount namespace"
    assert missing["pid_ns"] == "needs a mount namespace for its own /proc"


JUDGE_SCRIPT = """
import os, signal, sys
from pathlib import Path
from warpsmith.isolation import Policy, spawn
program, *read = sys.argv[1:]
command = program + " leave_behind; echo a line that is no frame >&4; " + program + " sleep 55"
child = spawn(["sh", "-c", command], Policy(read=tuple(map(Path, read))))
child.receive(10)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_orphan_survives_a_killed_judge_without_a_pid_namespace(
    prepared: Path, policy: Policy, running: Callable[[], list[int]], wait_until: Callable[[Callable[[], object]], None]
) -> None:
    done = on_a_machine_without(ALL, prepared, JUDGE_SCRIPT, policy.read)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not running())


CONTAINER_SCRIPT = """
import json, os, sys
from pathlib import Path
from warpsmith.isolation import Policy, run
program, folder, *read = sys.argv[1:]
policy = Policy(read=tuple(map(Path, [*read, folder])))
found = run([program, "read", folder + "/inner/task.py"], policy)
who = run([program, "identity"], policy).stdout.split()
print(json.dumps([found.stdout.decode(), found.confined.achieved, int(who[0])]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a map of two ids, as a container's runtime does")
def test_a_container_without_id_mapped_mounts_copies_what_is_private(prepared: Path, policy: Policy) -> None:
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-test-"))
    (folder / "inner").mkdir(mode=0o700)
    (folder / "inner" / "task.py").write_text("x")
    (folder / "inner" / "task.py").chmod(0o600)
    words = [sys.executable, "-c", CONTAINER_SCRIPT, str(prepared / "hostile"), str(folder), *map(str, policy.read)]
    container = subprocess.Popen(
        ["unshare", "--user", "sh", "-c", 'echo up; read go; exec "$@"', "sh", *words],
        env=_environment(prepared),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert container.stdout is not None
    assert container.stdout.readline() == "up\n"
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{container.pid}/{kind}").write_text("0 0 1\n65534 65534 1\n")
    answer, achieved, uid = json.loads(container.communicate("go\n", timeout=60)[0])
    shutil.rmtree(folder)
    assert (answer, uid) == ("ok\n", 65534)
    assert {"uid", "landlock", "seccomp", "readonly_root", "pid_ns"} <= set(achieved)
