"""A child that tries one thing, started by this user, by an ordinary one, and by one with subordinate ids."""

import errno
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.isolation import ordinary

from warpsmith.base.native import build_native
from warpsmith.isolation import (
    ChildOutcome,
    Policy,
    ProcessLimits,
    child,
    launcher as launcher_module,
    probe_confinement,
    run,
)
from warpsmith.isolation.launcher import launcher
from warpsmith.isolation.subordinate import SubordinateIds

PROGRAMS = Path(__file__).parent / "programs"
ORDINARY_UID = 1000
START = subprocess.Popen
SUBORDINATE_IDS = SubordinateIds(
    uid=ordinary.FIRST_SUBORDINATE,
    gid=ordinary.FIRST_SUBORDINATE,
    count=ordinary.SUBORDINATES,
    newuidmap=Path("/usr/bin/newuidmap"),
    newgidmap=Path("/usr/bin/newgidmap"),
)
Attempt = Callable[..., ChildOutcome]


@pytest.fixture(scope="session")
def commons() -> Iterator[Path]:
    """A folder that everybody may read, with the built programs in it."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-test-"))
    folder.chmod(0o755)
    shutil.copy(build_native("hostile", [PROGRAMS / "hostile.cc"]), folder / "hostile")
    shutil.copy(launcher(), folder / "launcher")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def own_places() -> None:
    """Skip where this Python may lie in a folder closed to the child, which only a mount namespace can open."""
    if "mount_ns" not in probe_confinement().achieved:
        pytest.skip("without a mount namespace the modes of folders decide")


@pytest.fixture(params=["own", "ordinary", "subordinate"])
def judge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, commons: Path) -> Iterator[str]:
    """Start children as this user, and, if it is root, as an ordinary one without and with subordinate ids."""
    if request.param == "ordinary" and os.geteuid() == 0:
        if not _can_become(ORDINARY_UID):
            pytest.skip(f"this machine maps no uid {ORDINARY_UID}")
        popen = functools.partial(subprocess.Popen, user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[])
        monkeypatch.setattr(child.subprocess, "Popen", popen)
        monkeypatch.setattr(child, "launcher", lambda: commons / "launcher")
    if request.param == "subordinate":
        if reason := ordinary.reason_to_skip(with_subordinate_ids=True):
            pytest.skip(reason)
        with ordinary.prefix_of_ordinary_user(commons, with_subordinate_ids=True) as prefix:
            monkeypatch.setattr(child.subprocess, "Popen", functools.partial(_start_after, prefix))
            monkeypatch.setattr(child, "launcher", lambda: commons / "launcher")
            monkeypatch.setattr(launcher_module, "find_subordinate_ids", lambda: SUBORDINATE_IDS)
            yield request.param
        return
    yield request.param


def _start_after(prefix: list[str], argv: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start the launcher behind words that replace themselves by it, so that its parent is this process."""
    return START([*prefix, *argv], **{**options, "env": {"PATH": os.environ["PATH"]}})


def _can_become(uid: int) -> bool:
    try:
        return subprocess.run(["true"], user=uid, group=uid, extra_groups=[]).returncode == 0
    except OSError:
        return False


@pytest.fixture
def workspace(judge: str) -> Iterator[Path]:
    """An empty folder that belongs to the judge."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-test-"))
    if judge != "own" and os.geteuid() == 0:
        uid = ordinary.UID if judge == "subordinate" else ORDINARY_UID
        os.chown(folder, uid, uid)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def policy(commons: Path) -> Policy:
    """What a plain program needs to run."""
    machine = tuple(path for path in map(Path, ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")) if path.exists())
    return Policy(read=(*machine, commons), limits=ProcessLimits(wall_s=20, memory_bytes=256 << 20))


@pytest.fixture
def attempt(judge: str, commons: Path, policy: Policy) -> Attempt:
    """Run one attempt of programs/hostile.cc; limits by keyword."""

    def attempt_one(what: str, argument: str = "", policy: Policy = policy, **limits: float | bool) -> ChildOutcome:
        bounds = ProcessLimits(**{**vars(policy.limits), **limits})
        return run([commons / "hostile", what, argument], Policy(**{**vars(policy), "limits": bounds}))

    return attempt_one


@pytest.fixture
def needs(attempt: Attempt) -> Callable[[str], None]:
    """Skip a test of a part that this machine refuses to give, with the machine's reason."""

    def needs_one(part: str) -> None:
        confined = attempt("exit", "0").confined
        if part not in confined.achieved:
            pytest.skip(next(line for line in confined.missing if line.startswith(part)))

    return needs_one


@pytest.fixture
def running(commons: Path) -> Callable[[], list[int]]:
    """Which processes of this machine execute the hostile program."""

    def running_now() -> list[int]:
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(bytes(commons / "hostile")):
                    found.append(int(folder.name))
            except OSError:  # it ended while we looked
                continue
        return found

    return running_now


@pytest.fixture
def answer(attempt: Attempt) -> Callable[..., str]:
    """Run one attempt and give its answer: "ok" or the name of the errno it got."""

    def answer_one(what: str, argument: str = "", **rest: Policy) -> str:
        outcome = attempt(what, argument, **rest)
        assert outcome.exit_code == 0, outcome
        text = outcome.stdout.decode().split()[-1]
        return errno.errorcode[int(text)] if text.isdigit() else text

    return answer_one
