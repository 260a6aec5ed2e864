"""One call of a candidate under a profiler or a sanitizer."""
# A tool must be the parent of the process that it watches, so the tool runs inside the confinement
# (FULL), or, if it refuses that, outside with a confined worker below (OWN). No output of a tool is
# parsed here.

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
# Above all ids that distributions give to users and to subordinate ranges by default.
UNUSED_UID = 2_000_000_000
TOOL_FOLDERS = ("/opt/nvidia", "/usr/local/cuda")


class Walls(StrEnum):
    """The confinement of a run under a tool."""

    # FULL has everything but the seccomp filter, which refuses system calls that such tools need. OWN
    # confines the worker only, and keeps the machine's network for tools that talk to their injected part
    # over sockets. OPEN is for trusted candidates.

    FULL = "full"
    OWN = "own"
    OPEN = "open"


@dataclass(frozen=True)
class ProfiledCall:
    """A call under a tool, with the run's folder."""

    artifact: Path
    entry: str
    values: Sequence[Value]
    runtime_folder: Path
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    read: tuple[Path, ...] = ()  # what else it needs to see


@dataclass(frozen=True)
class UnderTool:
    """The end of a run under a tool."""

    walls: Walls
    exit_code: int | None
    output: str
    seconds: float
    failure: Failure | None = None
    stopped: str = ""  # the limit that ended it, in words


def run_under(tool: Sequence[str], made: ProfiledCall, walls: Walls, wall_s: float = 60.0) -> UnderTool:
    """Run a tool around one call; failures are in the result."""
    # A candidate shares stdout with the tool, so tools are asked to write a report file. The printed text
    # explains a failure and is never parsed for a measurement.
    program, near = _placed(made) if walls is Walls.OWN else (worker(), made)
    _write_requests(near)
    held = _held(near, program) if walls is Walls.OWN else ()
    command = [*tool, *_ushered(near, held, program)]
    ended = _full(command, near, wall_s) if walls is Walls.FULL else _outside(command, near, walls, wall_s)
    return ended if ended.stopped else _with_answer(ended, made.folder)


def usher() -> Path:
    """Build the launcher that becomes the worker."""
    return build_native("warpsmith-usher", [USHER / "usher.cpp"])


def _placed(made: ProfiledCall) -> tuple[Path, ProfiledCall]:
    """Copy worker and artifact to the run's folder for its user."""
    # The build cache may be readable by its owner only, and as root the worker runs under another user
    # id.
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
    # The process number makes two concurrent runs different users, so that neither can signal or read the
    # other.
    return UNUSED_UID + os.getpid()


def _write_requests(made: ProfiledCall) -> None:
    """Write all requests of the run to a file."""
    # There is no conversation under a tool: the worker reads requests from a file and needs no answer
    # before the next one.
    frames = (
        Frame(FrameKind.LOAD, str(made.artifact).encode()),
        Frame(FrameKind.CALL, call(made.entry, made.values, lambda _raw: 0)),
        Frame(FrameKind.LEAVE),
    )
    with (made.folder / REQUESTS).open("wb") as out:
        for frame in frames:
            out.write(encode(frame))


def _full(command: Sequence[str], made: ProfiledCall, wall_s: float) -> UnderTool:
    """Run the command in the full confinement, without seccomp."""
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
    """Run the command unconfined; the launcher confines the worker."""
    # A session of its own makes one process group of the tool and everything that it starts. The group is
    # killed at the end in any case: tools leave daemons behind.
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
    """Kill the process group of a command."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _held(made: ProfiledCall, program: Path) -> tuple[str, ...]:
    """Return the launcher's arguments: readable paths and the user."""
    read = [*machine_paths(), *made.read, made.runtime_folder, program, made.artifact]
    read += [Path(folder) for folder in TOOL_FOLDERS if Path(folder).exists()]
    words = [word for path in read for word in ("--read", str(path.resolve()))]
    uid = ["--uid", str(_uid())] if os.geteuid() == 0 else []
    return (*uid, *words, "--write", str(made.folder))


def _ushered(made: ProfiledCall, held: Sequence[str], program: Path) -> list[str]:
    """Return the command line that starts the worker by the launcher."""
    files = ["--in", str(made.folder / REQUESTS), "--out", str(made.folder / ANSWERS)]
    return [str(usher()), *held, *files, str(program)]


def _outer_environment(made: ProfiledCall) -> dict[str, str]:
    """Return the environment of a tool outside the confinement."""
    own = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(made.folder), "TMPDIR": str(made.folder)}
    return {**own, "LANG": "C.UTF-8", **_environment(made)}


def _environment(made: ProfiledCall) -> dict[str, str]:
    """Return the environment of a worker under a tool."""
    known = environment(made.runtime_folder, {**EAGER, **UNDER_TOOL})
    libraries = [known["LD_LIBRARY_PATH"], made.env.get("LD_LIBRARY_PATH", "")]
    return {**known, **made.env, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}


def _with_answer(ended: UnderTool, folder: Path) -> UnderTool:
    """Add the failure that the worker reported, if any."""
    # The file lies in a folder that the candidate may write, so `collect_file` refuses links and large
    # files, and the bytes are parsed like any hostile frame.
    raw = collect_file(folder, ANSWERS, ANSWER_BYTES)
    if isinstance(raw, RefusedFile):
        return ended
    failure = next((found for payload in _payloads(raw) if (found := _failure(payload))), None)
    return UnderTool(ended.walls, ended.exit_code, ended.output, ended.seconds, failure)


def _payloads(raw: bytes) -> list[bytes]:
    """Return the payloads of all whole frames."""
    found, at = [], 0
    while at + HEADER_BYTES <= len(raw):
        length = HEAD.unpack_from(raw, at)[3]
        found.append(raw[at + HEADER_BYTES : at + HEADER_BYTES + length])
        at += HEADER_BYTES + length
    return found


def _failure(payload: bytes) -> Failure | None:
    """Return the failure of one reply, or None."""
    try:
        return status_failure(parse(payload))
    except MalformedReply:
        return None
