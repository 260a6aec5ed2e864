"""Confined child processes, run to the end or by frames."""

import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from warpsmith.base import HarnessError
from warpsmith.isolation.exchange import exchange
from warpsmith.isolation.frames import LIMIT_BYTES, Frame, FrameError, FrameFault, FrameReader, FrameWriter, encode
from warpsmith.isolation.launcher import ENVIRONMENT, encode_spec, launcher
from warpsmith.isolation.policy import Limit, Policy
from warpsmith.records import Confined

# Kinds of the status frames, as in native/report.h.
CONFINED, FAILED, OUTCOME, STDOUT, STDERR = 1, 2, 3, 4, 5
OUTCOME_PAYLOAD = struct.Struct("<iiIIQQdd")  # OutcomePayload of native/init.cc
WHOLE_S = 1.0  # for the rest of an answer whose first byte came in time
GRACE_S = 20.0  # for the launcher itself on a busy machine, beyond the child's wall-clock limit
PIPE_BYTES = 1 << 20  # capacity of each pipe: frames with tensors pass through it


@dataclass(frozen=True)
class ChildOutcome:
    """The end of a child, by exit code or by signal; output is cut at its limit."""

    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    cpu_s: float
    stopped: Limit | None
    peak_bytes: int
    peak_tasks: int
    confined: Confined

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.exit_code == 0 and self.stopped is None

    def describe(self, policy: Policy) -> str:
        """Describe the limit, the signal or the exit code."""
        if self.stopped is not None:
            return self.stopped.describe(policy.limits)
        if self.signal is not None:
            return f"it died of signal {self.signal} ({_signal_name(self.signal)})"
        return f"it ended with exit code {self.exit_code}"


def run(argv: Sequence[str | os.PathLike[str]], policy: Policy, stdin: bytes = b"") -> ChildOutcome:
    """Run a program confined until it ends. Raise HarnessError if it cannot be started."""
    with Child(argv, policy, stdin=stdin, frames=False) as child:
        return child.wait()


def spawn(argv: Sequence[str | os.PathLike[str]], policy: Policy, pass_fds: Sequence[int] = ()) -> "Child":
    """Start a program that reads frames on descriptor 3 and writes frames on 4.

    It gets `pass_fds` as descriptors from 5 on, in order.
    """
    return Child(argv, policy, pass_fds=pass_fds, frames=True)


@dataclass(frozen=True)
class ExchangeResult:
    """An answer or its error, and the seconds until the answer's first byte."""

    answer: Frame | FrameError
    seconds: float


class Child:
    """A running confined child, ended with its `with` block."""

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        policy: Policy,
        stdin: bytes = b"",
        pass_fds: Sequence[int] = (),
        frames: bool = True,
    ) -> None:
        self.policy = policy
        self._outcome: ChildOutcome | None = None
        self._confined: Confined | None = None
        self._own: list[int] = []  # descriptors of this process, closed at the end
        theirs: list[int] = []  # descriptors that only the child keeps
        try:
            self._start([os.fspath(word) for word in argv], stdin, list(pass_fds), frames, theirs)
        except BaseException:
            self._close()
            raise
        finally:
            # The child's ends are closed here in every case: a copy in this process would hide the end of a pipe.
            for fd in theirs:
                os.close(fd)

    def _start(self, argv: list[str], stdin: bytes, passed: list[int], frames: bool, theirs: list[int]) -> None:
        status, status_theirs = self._pipe(theirs, reads=True)
        self._control, control_theirs = self._pipe(theirs, reads=False)
        self._status = FrameReader(status)
        channel: list[int] = []
        if frames:
            answers, answers_theirs = self._pipe(theirs, reads=True)
            requests, requests_theirs = self._pipe(theirs, reads=False)
            self._reader, self._writer = FrameReader(answers), FrameWriter(requests)
            channel = [requests_theirs, answers_theirs]
        # The spec and stdin are sealed memory files: no path, no size limit of a pipe, and no later change.
        source = _make_sealed_file("stdin", stdin, theirs)
        spec = _make_sealed_file(
            "spec", encode_spec(_resolve_program(argv, self.policy), self.policy, [*channel, *passed]), theirs
        )
        self._process = subprocess.Popen(
            [launcher(), str(spec), str(status_theirs), str(control_theirs)],
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # No variable of this process reaches the launcher; the child's environment stands in the spec.
            env={},
            cwd="/",
            pass_fds=[spec, status_theirs, control_theirs, *channel, *passed],
            start_new_session=True,  # Ctrl-C goes to the evaluator process only, which then ends the child
        )

    def _pipe(self, theirs: list[int], reads: bool) -> tuple[int, int]:
        """Return a new pipe as (our end, their end)."""
        out, into = os.pipe()
        with suppress(PermissionError):  # beyond an ordinary user's share of pipe memory a pipe stays small, and works
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        own, other = (out, into) if reads else (into, out)
        self._own.append(own)
        theirs.append(other)
        return own, other

    @property
    def confined(self) -> Confined:
        """The child's confinement; waits until the program runs."""
        if self._confined is None:
            frame = self._next_status(GRACE_S)
            if frame.kind != CONFINED:
                raise HarnessError(f"The launcher sent a frame of kind {frame.kind} first; {CONFINED} was due.")
            self._confined = parse_confined(frame.payload.decode(errors="replace"))
        return self._confined

    def send(self, frame: Frame, timeout_s: float = 10.0) -> FrameError | None:
        """Send a frame; return an error if unread."""
        return self._writer.write(frame, timeout_s)

    def receive(self, timeout_s: float, kind: int | None = None, limit_bytes: int = LIMIT_BYTES) -> Frame | FrameError:
        """Return the child's next frame or an error. With `kind`, another kind is an error."""
        frame = self._reader.read(timeout_s, limit_bytes)
        if isinstance(frame, Frame) and kind not in (None, frame.kind):
            return FrameError(FrameFault.KIND, f"a frame of kind {frame.kind} came; kind {kind} was due")
        return frame

    def exchange(self, frame: Frame, timeout_s: float, kind: int, limit_bytes: int, spin_s: float) -> ExchangeResult:
        """Exchange frames; measure seconds until the answer's first byte."""
        # In native code: a clock read under the interpreter's lock would include waiting for other threads.
        seconds = exchange(self._writer.fd, encode(frame), self._reader.fd, spin_s, timeout_s)
        left_s = max(timeout_s - seconds, WHOLE_S) if seconds < timeout_s else 0.0
        return ExchangeResult(self.receive(left_s, kind, limit_bytes), seconds)

    def read_surplus(self) -> FrameError | None:
        """Return an error if the child sent surplus bytes. Call it after `wait`."""
        return self._reader.read_surplus()

    @property
    def processes(self) -> frozenset[int]:
        """Process ids of the launcher and its descendants."""
        return list_descendants(self._process.pid)

    @property
    def is_alive(self) -> bool:
        """Whether the child has not ended by itself."""
        return self._process.poll() is None

    def wait_for_end(self, seconds: float) -> bool:
        """Return whether the child ends within `seconds`."""
        _ = self.confined  # the first status frame; the next one is the end
        return self._outcome is not None or self._status.ready(seconds)

    def kill(self) -> None:
        """End the child and its descendants; `wait` still works."""
        # The launcher's init ends the whole tree. Killing by process id from here could hit an id that was reused.
        with suppress(BrokenPipeError):
            os.write(self._control, b"k")

    def wait(self) -> ChildOutcome:
        """Return the outcome. Wait at most until the wall-clock limit."""
        if self._outcome is None:
            self._outcome = self._read_outcome()
        return self._outcome

    def _read_outcome(self) -> ChildOutcome:
        """Read the three last status frames: outcome, stdout, stderr."""
        confined = self.confined
        signaled, value, stop, _, peak_bytes, peak_tasks, seconds, cpu_s = OUTCOME_PAYLOAD.unpack(
            self._next_status(self.policy.limits.wall_s + GRACE_S).payload
        )
        return ChildOutcome(
            exit_code=None if signaled else value,
            signal=value if signaled else None,
            stdout=self._next_status(GRACE_S).payload,
            stderr=self._next_status(GRACE_S).payload,
            seconds=seconds,
            cpu_s=cpu_s,
            stopped=Limit(stop) if stop else None,
            peak_bytes=peak_bytes,
            peak_tasks=peak_tasks,
            confined=confined,
        )

    def _next_status(self, timeout_s: float) -> Frame:
        """Return the launcher's next status frame. Raise HarnessError without one."""
        frame = self._status.read(timeout_s, self.policy.limits.output_bytes + PIPE_BYTES)
        if isinstance(frame, FrameError):
            raise HarnessError(
                f"The launcher of a confined child failed: a status frame is {frame.fault}: {frame.detail}."
            )
        if frame.kind == FAILED:
            raise HarnessError(self._failure(frame.payload.decode(errors="replace")))
        return frame

    def _failure(self, why: str) -> str:
        """Return the message for a failed start."""
        text = f"A confined child could not be started: {why}."
        if "Permission denied" in why and self._confined is not None and "mount_ns" not in self._confined.achieved:
            text += " Without a mount namespace, what it runs and reads must be open to other users (chmod o+rX)."
        return text

    def _close(self) -> None:
        """Close the descriptors of this process."""
        for fd in self._own:
            os.close(fd)
        self._own.clear()

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()  # at the end of the control pipe, the init process ends all descendants
        if not self._ended(GRACE_S):
            self._process.kill()
        self._process.wait()

    def _ended(self, seconds: float) -> bool:
        """Return whether the launcher ends in time."""
        # A pidfd wakes this process at the end of the other; Popen.wait with a timeout polls with growing pauses.
        if self._process.poll() is not None:
            return True
        fd = os.pidfd_open(self._process.pid)
        try:
            waiting = select.poll()
            waiting.register(fd, select.POLLIN)
            return bool(waiting.poll(seconds * 1000))
        finally:
            os.close(fd)


def list_descendants(pid: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Return a process and its running descendants."""
    parents = {}
    # proc(5): the name in parentheses may hold spaces and parentheses, so fields are counted from the last ")".
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # a process that has ended meanwhile
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found)


def parse_confined(lines: str) -> Confined:
    """Parse the launcher's report of confinement."""
    achieved = sorted({line[1:] for line in lines.splitlines() if line.startswith("+")})
    missing = sorted({line[1:] for line in lines.splitlines() if line.startswith("-")})
    return Confined(achieved=tuple(achieved), missing=tuple(missing))


def _resolve_program(argv: list[str], policy: Policy) -> list[str]:
    """Return the command with the program's full path. Raise HarnessError if it is missing."""
    path = policy.env.get("PATH", ENVIRONMENT["PATH"])
    found = argv[0] if os.sep in argv[0] else shutil.which(argv[0], path=path)
    if found is None:
        raise HarnessError(f"Program {argv[0]!r} is not on the confined PATH {path}.")
    return [str(Path(found).absolute()), *argv[1:]]


def _make_sealed_file(name: str, content: bytes, theirs: list[int]) -> int:
    """Return a descriptor of a sealed memory file."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    theirs.append(fd)
    with os.fdopen(fd, "wb", closefd=False) as out:
        out.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    # With F_SEAL_SEAL, nobody can add a seal afterwards, the child included.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


def _signal_name(number: int) -> str:
    """Return a signal's name, or `unknown` for a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
