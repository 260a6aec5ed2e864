"""Machines that refuse a part: confinement goes on with the rest, says what is missing, and still holds its limits.

A user namespace whose own bounds on namespaces are zero plays such a machine.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.base import Home
from warpsmith.confine import Policy
from warpsmith.confine.launcher import launcher

SCRIPT = """
import json, sys
from pathlib import Path
from warpsmith.confine import Limits, Policy, run
program, *read = sys.argv[1:]
policy = Policy(read=tuple(map(Path, read)), limits=Limits(wall_s=10, memory_bytes=128 << 20))
runs = [run([program, *words], policy) for words in
        (["leave_behind"], ["private_pages"], ["write", "mine"], ["write", "/usr/planted"], ["list", "/home"], ["tcp"])]
print(json.dumps({
    "achieved": runs[0].confined.achieved,
    "missing": dict(line.split(": ", 1) for line in runs[0].confined.missing),
    "stopped": [one.stopped and one.stopped.name for one in runs],
    "answers": [one.stdout.decode().strip() for one in runs],
}))
"""
ALL = ("mnt", "pid", "net", "ipc", "uts", "user")
NAMES = {"mnt": "mount_ns", "pid": "pid_ns", "net": "net_ns", "ipc": "ipc_ns", "uts": "uts_ns", "user": "user_ns"}


def on_a_machine_without(kinds: tuple[str, ...], commons: Path, read: tuple[Path, ...]) -> Any:
    """What the script finds where these kinds of namespaces cannot be made."""
    bounds = "; ".join(f"echo 0 > /proc/sys/user/max_{kind}_namespaces" for kind in kinds)
    command = f'set -e; {bounds}; exec "$@"'
    source = Path(warpsmith.__file__).parents[1]
    words = [sys.executable, "-c", SCRIPT, str(commons / "hostile"), *map(str, read)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command, "sh", *words],
        env={"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(commons / "home")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def prepared(commons: Path) -> Path:
    """The launcher where the nested judge looks for it, so that it is not built a second time."""

    built = launcher()
    place = commons / "home" / "cache" / built.relative_to(Home.here().cache)
    place.parent.mkdir(parents=True)
    place.write_bytes(built.read_bytes())
    place.chmod(0o755)
    return commons


@pytest.mark.parametrize("kinds", [*((kind,) for kind in ALL), ALL], ids="+".join)
def test_a_refused_part_is_named_and_the_rest_holds(kinds: tuple[str, ...], prepared: Path, policy: Policy) -> None:
    found = on_a_machine_without(kinds, prepared, policy.read)
    assert {NAMES[kind] for kind in kinds} <= set(found["missing"])
    assert {"no_new_privs", "capabilities", "seccomp", "landlock", "rlimits"} <= set(found["achieved"])
    assert "No space left" in found["missing"][NAMES[kinds[-1]]]
    assert found["stopped"] == [None, "MEMORY", None, None, None, None]
    behind, _, own, system, other, network = found["answers"]
    assert (behind, own) == ("ok", "ok")
    assert all(answer.isdigit() for answer in (system, other, network))
    assert not list(Path("/tmp").glob("warpsmith-confined-*"))


def test_without_a_mount_namespace_there_is_no_root_of_its_own(prepared: Path, policy: Policy) -> None:
    missing = on_a_machine_without(("mnt",), prepared, policy.read)["missing"]
    assert missing["readonly_root"] == missing["private_tmp"] == "needs a mount namespace"
    assert missing["pid_ns"] == "needs a mount namespace for its own /proc"
