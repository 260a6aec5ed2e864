"""Processes that begin in milliseconds: one process loads what takes seconds to load, and forks each of the others.

It forks without threads and before it has touched a GPU; a child opens the device itself.
"""

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
# How torch sees whether there is a GPU: the other way opens the driver, and no child of the process could use it. And
# no threads of numpy's.
ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OPENBLAS_NUM_THREADS": "1"}
ASKED = b"1"
TAIL = 500  # of a child's last words

Serve = Callable[[int, int], None]


def hung_up(fd: int, wait_ms: int | None = None) -> bool:
    """Whether the other end of a pipe is closed within so many milliseconds; waits for that without a number."""
    poll = select.poll()
    poll.register(fd, 0)  # hanging up is always told
    return bool(poll.poll(wait_ms))


class ForkedChild:
    """The asker's end of a child, which ends when this is closed."""

    def __init__(self, requests: int, replies: int, words: IO[bytes], before: IO[bytes]) -> None:
        self.writer, self.reader = FrameWriter(requests), FrameReader(replies)
        self._words, self._before = words, before

    @property
    def is_gone(self) -> bool:
        """Whether it has ended; one that has not begun yet has not."""
        return hung_up(self.reader.fd, 0)

    def last_words(self) -> str:
        """The end of what it said to nobody in particular, or else of what its parent said."""
        before = _tail(self._before)
        return _tail(self._words) or (f"its parent said: {before}" if before else "")

    def close(self) -> None:
        """Let go of it."""
        os.close(self.writer.fd)
        os.close(self.reader.fd)
        self._words.close()


def _tail(words: IO[bytes]) -> str:
    if words.closed:
        return ""
    words.seek(max(0, words.seek(0, os.SEEK_END) - TAIL))
    return words.read().decode(errors="replace").strip()


class Nursery:
    """The asker's side. The process begins at once, and again for whoever asks after it has died."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv
        self._asking, self._over = Lock(), False
        self._begin()

    def child(self) -> ForkedChild:
        """A child; it may begin later than this returns."""
        with self._asking:
            if self._over:
                raise HarnessError("The processes that evaluate have been ended.")
            if self._process.poll() is not None:
                self._end()
                self._begin()
            return self._ask()

    def close(self) -> None:
        """End it and all of its children."""
        with self._asking:
            self._over = True
            self._end()

    def _ask(self) -> ForkedChild:
        reading, requests = os.pipe()
        replies, writing = os.pipe()
        words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            with suppress(OSError):  # it has just died, and so has the child: whoever asks that will see
                socket.send_fds(self._control, [ASKED], [reading, writing, words.fileno()])
        finally:
            os.close(reading)
            os.close(writing)
        return ForkedChild(requests, replies, words, self._words)

    def _begin(self) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._argv,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env={**os.environ, **ENVIRONMENT, **bytecode("torch")},
                start_new_session=True,  # an interrupt at the terminal is for whoever asked, who then ends us
            )

    def _end(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._words.close()


def bytecode(module: str) -> dict[str, str]:
    """Where the compiled modules of a package are kept that came without: from its text, torch takes thrice as long."""
    found = importlib.util.find_spec(module)
    if found is None or (found.cached and Path(found.cached).exists()):
        return {}
    return {"PYTHONPYCACHEPREFIX": str(Home.locate().cache / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}


def tend(load: Callable[[], None], serve: Serve) -> None:
    """Load, then fork a child for each question on standard input, until that is closed."""
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
    """A child's life; it ends with its parent, whatever it does then."""
    try:
        reading, writing, words = fds
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.close(words)
        ctypes.CDLL(None).prctl(PARENT_GONE, signal.SIGKILL)
        if os.getppid() == parent:
            serve(reading, writing)
    except BaseException as error:  # noqa: BLE001 - the parent's loop is not ours to go on with
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def _reap() -> None:
    """Take leave of the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
