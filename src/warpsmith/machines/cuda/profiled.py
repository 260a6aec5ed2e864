"""One call of a candidate under a tool that must be its parent: a profiler or a sanitizer. Knows no tool's output.

Two confinements, the first of them tried first. `FULL` is that of every worker without its call filter, with the tool
inside; tools that speak to their part in the process over the network find none there. `OWN` leaves the tool outside
and takes files, other users and new rights from the worker, which keeps the network of this machine.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from warpsmith.base import build_native
from warpsmith.isolation import (
    HEAD,
    HEADER_BYTES,
    Frame,
    Policy,
    ProcessLimits,
    RefusedFile,
    collect_file,
    encode,
    machine_paths,
    run,
)
from warpsmith.machines.worker import (
    EAGER,
    FrameKind,
    MalformedReply,
    Value,
    call,
    environment,
    parse,
    status_failure,
)
from warpsmith.machines.worker.worker import UNDER_TOOL, worker
from warpsmith.records import Failure

USHER = Path(__file__).parent / "usher"
REQUESTS, ANSWERS = "requests", "answers"
ANSWER_BYTES, OUTPUT_BYTES = 1 << 20, 16 << 20
UNUSED_UID = 2_000_000_000
TOOL_FOLDERS = ("/opt/nvidia", "/usr/local/cuda")


class Walls(StrEnum):
    """Which confinement a run had; OPEN has the user's own rights and is for trusted candidates."""

    FULL = "full"
    OWN = "own"
    OPEN = "open"


@dataclass(frozen=True)
class ProfiledCall:
    """A call under a tool, and the folder of this run, where the child reads its requests and may write."""

    artifact: Path
    entry: str
    values: Sequence[Value]
    runtime_folder: Path
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    read: tuple[Path, ...] = ()  # what else it needs to see


@dataclass(frozen=True)
class UnderTool:
    """How a run under a tool ended: what was printed, and the failure of the call itself, if it had any."""

    walls: Walls
    exit_code: int | None
    output: str
    seconds: float
    failure: Failure | None = None
    stopped: str = ""  # the limit that ended it, in words


def run_under(tool: Sequence[str], made: ProfiledCall, walls: Walls, wall_s: float = 60.0) -> UnderTool:
    """Run the tool around one call. The candidate may print; a tool should write to a file."""
    program, near = _placed(made) if walls is Walls.OWN else (worker(), made)
    _write_requests(near)
    held = _held(near, program) if walls is Walls.OWN else ()
    command = [*tool, *_ushered(near, held, program)]
    ended = _full(command, near, wall_s) if walls is Walls.FULL else _outside(command, near, walls, wall_s)
    return ended if ended.stopped else _with_answer(ended, made.folder)


def usher() -> Path:
    """Build the launcher, which becomes the worker under a tool."""
    return build_native("warpsmith-usher", [USHER / "usher.cpp"])


def _placed(made: ProfiledCall) -> tuple[Path, ProfiledCall]:
    """Copy worker and artifact to the run's folder and give them to its user: the cache may be closed to others."""
    program, artifact = made.folder / "worker", made.folder / "artifact.so"
    shutil.copy(worker(), program)
    shutil.copy(made.artifact, artifact)
    if os.geteuid() == 0:
        os.chown(made.folder, _uid(), -1)
        for path in (program, artifact):
            os.chown(path, _uid(), -1)
    return program, replace(made, artifact=artifact)


def _uid() -> int:
    """Return a user id that no other process has."""
    return UNUSED_UID + os.getpid()


def _write_requests(made: ProfiledCall) -> None:
    """Write all requests to the worker in advance; results stay where they are."""
    frames = (
        Frame(FrameKind.LOAD, str(made.artifact).encode()),
        Frame(FrameKind.CALL, call(made.entry, made.values, lambda _raw: 0)),
        Frame(FrameKind.LEAVE),
    )
    with (made.folder / REQUESTS).open("wb") as out:
        for frame in frames:
            out.write(encode(frame))


def _full(command: Sequence[str], made: ProfiledCall, wall_s: float) -> UnderTool:
    tools = [Path(folder) for folder in TOOL_FOLDERS if Path(folder).exists()]
    native = (worker().parent, usher().parent)
    policy = Policy(
        read=(*machine_paths(), *tools, *made.read, made.runtime_folder, *native, made.artifact),
        write=(made.folder,),
        limits=ProcessLimits(
            wall_s=wall_s, cpu_s=600, memory_bytes=32 << 30, output_bytes=OUTPUT_BYTES, address_space=False
        ),
        devices=True,
        seccomp="none",
        env=_environment(made),
    )
    ended = run(command, policy)
    text = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    stopped = ended.describe(policy) if ended.stopped is not None else ""
    return UnderTool(Walls.FULL, ended.exit_code, text, ended.seconds, stopped=stopped)


def _outside(command: Sequence[str], made: ProfiledCall, walls: Walls, wall_s: float) -> UnderTool:
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=made.folder,
        env=_outer_environment(made),
        start_new_session=True,
    )
    try:
        output, stopped = process.communicate(timeout=wall_s)[0], ""
    except subprocess.TimeoutExpired:
        _kill_group(process)
        output, stopped = process.communicate()[0], f"it ran longer than {wall_s:g} s of wall-clock time"
    finally:
        _kill_group(process)  # at an interrupt all of it, and else what was left behind
    text = output[:OUTPUT_BYTES].decode("utf-8", "replace")
    return UnderTool(walls, process.returncode, text, time.monotonic() - begin, stopped=stopped)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _held(made: ProfiledCall, program: Path) -> tuple[str, ...]:
    """Return the launcher's arguments: the readable paths and, for root, another user."""
    read = [*machine_paths(), *made.read, made.runtime_folder, program, made.artifact]
    read += [Path(folder) for folder in TOOL_FOLDERS if Path(folder).exists()]
    words = [word for path in read for word in ("--read", str(path.resolve()))]
    uid = ["--uid", str(_uid())] if os.geteuid() == 0 else []
    return (*uid, *words, "--write", str(made.folder))


def _ushered(made: ProfiledCall, held: Sequence[str], program: Path) -> list[str]:
    files = ["--in", str(made.folder / REQUESTS), "--out", str(made.folder / ANSWERS)]
    return [str(usher()), *held, *files, str(program)]


def _outer_environment(made: ProfiledCall) -> dict[str, str]:
    """Return a small environment, in which the tool finds its programs and a place for files."""
    own = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(made.folder), "TMPDIR": str(made.folder)}
    return {**own, "LANG": "C.UTF-8", **_environment(made)}


def _environment(made: ProfiledCall) -> dict[str, str]:
    known = environment(made.runtime_folder, {**EAGER, **UNDER_TOOL})
    libraries = [known["LD_LIBRARY_PATH"], made.env.get("LD_LIBRARY_PATH", "")]
    return {**known, **made.env, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}


def _with_answer(ended: UnderTool, folder: Path) -> UnderTool:
    """Add the worker's answer to its last request; without one, the run has only the tool's output."""
    raw = collect_file(folder, ANSWERS, ANSWER_BYTES)
    if isinstance(raw, RefusedFile):
        return ended
    failure = next((found for payload in _payloads(raw) if (found := _failure(payload))), None)
    return UnderTool(ended.walls, ended.exit_code, ended.output, ended.seconds, failure)


def _payloads(raw: bytes) -> list[bytes]:
    found, at = [], 0
    while at + HEADER_BYTES <= len(raw):
        length = HEAD.unpack_from(raw, at)[3]
        found.append(raw[at + HEADER_BYTES : at + HEADER_BYTES + length])
        at += HEADER_BYTES + length
    return found


def _failure(payload: bytes) -> Failure | None:
    try:
        return status_failure(parse(payload))
    except MalformedReply:
        return None
