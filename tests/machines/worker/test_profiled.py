"""A call under a tool: the requests and answers by files, and what the worker may see behind each kind of walls."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.machines.cuda.profiled import ANSWERS, REQUESTS, ProfiledCall, Walls, run_under, usher
from warpsmith.machines.virtual import runtime
from warpsmith.machines.worker.values import Raw
from warpsmith.records import Reason

VALUES = (Raw("float32", (4,), (1,), bytes(16)),)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def made(folder: Path, env: dict[str, str] | None = None) -> ProfiledCall:
    return ProfiledCall(Path("/bin/true"), "forward", VALUES, runtime().parent, folder, env or {})


@pytest.mark.parametrize("walls", list(Walls))
def test_the_worker_answers_under_a_tool(folder: Path, walls: Walls) -> None:
    ended = run_under(["/usr/bin/env"], made(folder), walls, 20)
    assert (ended.walls, ended.exit_code, ended.stopped) == (walls, 0, "")
    assert ended.failure is not None  # there is no GPU here, and it says so
    assert ended.failure.reason is Reason.LAUNCH_ERROR
    assert (folder / REQUESTS).stat().st_size > 16


@pytest.mark.parametrize("walls", [Walls.FULL, Walls.OPEN])
def test_a_tool_that_does_not_end_is_ended(tmp_path: Path, walls: Walls) -> None:
    ended = run_under(["/bin/sh", "-c", "sleep 60"], made(tmp_path), walls, 1)
    assert "longer than 1 s" in ended.stopped
    assert ended.seconds < 15


def test_what_a_tool_prints_is_kept(tmp_path: Path) -> None:
    ended = run_under(["/bin/sh", "-c", "echo counted; exit 3"], made(tmp_path), Walls.OPEN, 20)
    assert (ended.output, ended.exit_code, ended.failure) == ("counted\n", 3, None)


def test_the_usher_takes_files_and_users_away(folder: Path) -> None:
    (folder / "in").touch()
    folder.chmod(0o777)
    secret = Path(__file__)
    told = ["--read", sys.base_prefix, "--read", "/usr", "--read", "/lib", "--read", "/lib64", "--write", str(folder)]
    uid = ["--uid", "2000000123"] if os.geteuid() == 0 else []
    files = ["--in", str(folder / "in"), "--out", str(folder / ANSWERS)]
    script = f'id -u; cat {secret} || echo refused; echo mine > "{folder}/mine" && echo written; echo frame >&4'
    words = [str(usher()), *uid, *told, *files, "/usr/bin/sh", "-c", script]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert lines[1:] == ["refused", "written"]
    assert lines[0] == (uid[1] if uid else str(os.geteuid()))
    assert (folder / ANSWERS).read_text() == "frame\n"


def test_the_environment_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    ended = run_under(["/usr/bin/env", "/usr/bin/env"], made(tmp_path, {"MORE": "1"}), Walls.OPEN, 20)
    assert "secret" not in ended.output
    shown = run_under(["/bin/sh", "-c", "env"], made(tmp_path, {"MORE": "1"}), Walls.OPEN, 20)
    assert "secret" not in shown.output
    assert "MORE=1" in shown.output
