"""The fork server: loads torch once and forks children in milliseconds."""
# It forks while it has no threads and has not opened the GPU. Locks of other threads stay locked in a
# child for ever, and CUDA's driver refuses to work in a forked child.

import ctypes
import importlib.util
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO

from warpsmith.base import HarnessError, Home
from warpsmith.isolation import FrameReader, FrameWriter

PARENT_GONE = 1  # prctl's PR_SET_PDEATHSIG
# Torch asks NVML whether there is a GPU: to ask CUDA would open the driver, and no child could use it. One thread of
# OpenBLAS, because a process with threads must not fork.
ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OPENBLAS_NUM_THREADS": "1"}
ASKED = b"1"
TAIL = 500  # characters of a child's output that an error shows

Serve = Callable[[int, int], None]


def hung_up(fd: int, wait_ms: int | None = None) -> bool:
    """Return whether a pipe's other end is closed."""
    # With `wait_ms` None the function waits until the end closes.
    poll = select.poll()
    poll.register(fd, 0)  # POLLHUP is reported without being requested
    return bool(poll.poll(wait_ms))


class ForkedChild:
    """The caller's end of a forked child."""

    def __init__(self, requests: int, replies: int, words: IO[bytes], before: IO[bytes]) -> None:
        self.writer, self.reader = FrameWriter(requests), FrameReader(replies)
        self._words, self._before = words, before

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended; not before its fork."""
        return hung_up(self.reader.fd, 0)

    def last_words(self) -> str:
        """Return the last output of child or fork server."""
        before = _tail(self._before)
        return _tail(self._words) or (f"its parent said: {before}" if before else "")

    def close(self) -> None:
        """Close the pipes, which ends the child."""
        os.close(self.writer.fd)
        os.close(self.reader.fd)
        self._words.close()


def _tail(words: IO[bytes]) -> str:
    """Return the last 500 bytes of a file; empty if closed."""
    if words.closed:
        return ""
    words.seek(max(0, words.seek(0, os.SEEK_END) - TAIL))
    return words.read().decode(errors="replace").strip()


class Nursery:
    """The caller's side of the fork server."""

    # Started at once, since torch takes seconds to load, and again at the first request after its death.

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv
        self._asking, self._over = Lock(), False
        self._begin()

    def child(self) -> ForkedChild:
        """Return a new child; raise HarnessError after `close`."""
        # The child may be forked later than this returns: its pipes exist already, and requests wait in
        # them.
        with self._asking:
            if self._over:
                raise HarnessError("The processes that evaluate have been ended.")
            if self._process.poll() is not None:
                self._end()
                self._begin()
            return self._ask()

    def close(self) -> None:
        """End the fork server and all of its children."""
        with self._asking:
            self._over = True
            self._end()

    def _ask(self) -> ForkedChild:
        """Send pipes and an output file; return the caller's end."""
        # Descriptors travel over the socket (SCM_RIGHTS), because the fork server was started before
        # these pipes existed. Our copies of the child's ends are closed at once: only then does the pipe
        # hang up when the child dies.
        reading, requests = os.pipe()
        replies, writing = os.pipe()
        words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            with suppress(OSError):  # the fork server has just died: the child's pipe then reads as closed
                socket.send_fds(self._control, [ASKED], [reading, writing, words.fileno()])
        finally:
            os.close(reading)
            os.close(writing)
        return ForkedChild(requests, replies, words, self._words)

    def _begin(self) -> None:
        """Start the fork server."""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._argv,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env={**os.environ, **ENVIRONMENT, **bytecode("torch")},
                start_new_session=True,  # an interrupt at the terminal is for the caller, which then ends this process
            )

    def _end(self) -> None:
        """Kill the fork server; PR_SET_PDEATHSIG ends its children."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._words.close()


def bytecode(module: str) -> dict[str, str]:
    """Return variables that cache a package's bytecode."""
    # Installers can leave bytecode out. Python then compiles torch's modules at each start, which takes
    # three times as long.
    found = importlib.util.find_spec(module)
    if found is None or (found.cached and Path(found.cached).exists()):
        return {}
    return {"PYTHONPYCACHEPREFIX": str(Home.locate().cache / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}


def tend(load: Callable[[], None], serve: Serve) -> None:
    """Load, then fork a child for each message."""
    # The control socket moves to another descriptor and standard input becomes /dev/null, so that no
    # loaded module can read a request.
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    load()
    here = os.getpid()
    while True:
        asked, fds, _, _ = socket.recv_fds(control, len(ASKED), 3, socket.MSG_CMSG_CLOEXEC)
        if not asked:
            os._exit(0)
        _reap()
        if os.fork() == 0:
            control.close()
            _live(here, fds, serve)
        for fd in fds:
            os.close(fd)


def _live(parent: int, fds: list[int], serve: Serve) -> None:
    """Serve requests as a child, then exit."""
    # PR_SET_PDEATHSIG kills the child with its parent. The parent may have died before the call, so its
    # number is compared afterwards. `os._exit` skips exit handlers of the parent's modules.
    try:
        reading, writing, words = fds
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.close(words)
        ctypes.CDLL(None).prctl(PARENT_GONE, signal.SIGKILL)
        if os.getppid() == parent:
            serve(reading, writing)
    except BaseException as error:  # noqa: BLE001 - a child must never return into its parent's loop
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def _reap() -> None:
    """Reap the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
