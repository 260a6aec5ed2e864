"""The clock: a process in which one candidate is timed while others are compiled and checked in this one.

Threads of a Python process wait for each other, and whoever is on the clock would wait for all of them; the GPU is its
alone meanwhile, so that everybody else waits as well. Whoever has a candidate timed holds the lease of the GPU; whoever
waits for the process to begin holds none, since it needs the GPU itself for that.

python -m warpsmith.bench.clock
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from threading import Lock, Thread
from typing import IO, Protocol

from warpsmith.base import HarnessError
from warpsmith.bench.choices import Choices
from warpsmith.bench.pool import pool
from warpsmith.bench.warm import warming
from warpsmith.confine import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.records import Candidate, Environment, Model, StageResult

ARGV = (sys.executable, "-P", "-m", "warpsmith.bench.clock")
JOB, REPLY, READY = 1, 2, 3
JOB_S, IDLE_S = 3600.0, 7 * 86400.0
JOB_BYTES = 16 << 20
TAIL = 500  # of its last words


class Job(Model):
    """One candidate to be timed: what the stages before know of it."""

    target: str
    candidate: Candidate
    choices: Choices
    seed: int
    artifact: str
    launches: int
    recorded: str  # the file with the calls to repeat
    environment: Environment


class Reply(Model):
    """The timing stage's result, or what went wrong on our side."""

    result: StageResult | None = None
    error: str = ""


class Timing(Protocol):
    """Who times a candidate elsewhere."""

    def turn(self) -> AbstractContextManager[None]:
        """One's turn, once it can; whoever waits for it holds no lease."""
        ...

    def time(self, job: Job) -> StageResult:
        """The timing stage's result."""
        ...


TimeOne = Callable[[Job], StageResult]


class Clock:
    """The process; it begins at once, since that takes seconds, and again after it has died."""

    _is_there: bool

    def __init__(self, argv: tuple[str, ...] = ARGV) -> None:
        self._argv = argv
        self._turn = Lock()
        self._begin()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One's turn, once the process is there, begun again if it has died.

        First the turn and then the lease: the process takes a lease itself to begin.
        """
        with self._turn:
            if self._process.poll() is not None:
                self.close()
                self._begin()
            if not self._is_there:
                self._next(READY)
                self._is_there = True
            yield

    def time(self, job: Job) -> StageResult:
        """The result of the timing stage; asked by whoever has the turn and the GPU."""
        if (error := self._writer.write(Frame(JOB, job.text().encode()), JOB_S)) is not None:
            raise self._ended(error)
        reply = Reply.parse(self._next(REPLY).payload)
        if reply.result is None:
            raise HarnessError(reply.error or "The clock's process gave no result.")
        return reply.result

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._words.close()

    def _begin(self) -> None:
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._writer = FrameWriter(self._process.stdin.fileno())
        self._reader = FrameReader(self._process.stdout.fileno())
        self._is_there = False

    def _next(self, kind: int) -> Frame:
        found = self._reader.read(JOB_S, JOB_BYTES)
        if isinstance(found, FrameError):
            raise self._ended(found)
        if found.kind != kind:
            raise HarnessError(f"The clock's process sent a frame of kind {found.kind}, not {kind}.")
        return found

    def _ended(self, error: FrameError) -> HarnessError:
        self._process.kill()
        self._process.wait()
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - TAIL))
        last = self._words.read().decode(errors="replace").strip()
        return HarnessError(f"The clock's process ended ({error.detail}): {last}")


@contextmanager
def pool_with_clock(choices: Choices, jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Clock | None]]:
    """Threads for many candidates, and a clock where several of them are evaluated at once on a GPU."""
    if choices.device != "cuda" or jobs < 2:
        with pool(jobs) as threads:
            yield threads, None
        return
    with closing(Clock()) as clock, warming(), pool(jobs) as threads:
        yield threads, clock


def serve(requests: FrameReader, replies: FrameWriter, time_one: TimeOne) -> None:
    """Answer until the other end is closed."""
    replies.write(Frame(READY), IDLE_S)
    while not isinstance(frame := requests.read(IDLE_S, JOB_BYTES), FrameError):
        try:
            reply = Reply(result=time_one(Job.parse(frame.payload)))
        except Exception as error:  # noqa: BLE001 - our fault in one evaluation, told in its record
            reply = Reply(error=f"{type(error).__name__}: {error}")
        if replies.write(Frame(REPLY, reply.text().encode()), IDLE_S) is not None:
            break


def leave_with(fd: int) -> None:
    """End this process as soon as the other end of a pipe is closed, whatever it does then."""

    def watch() -> None:
        poll = select.poll()
        poll.register(fd, 0)  # hanging up is always told
        poll.poll()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run(time_one: TimeOne, prepare: Callable[[], None]) -> None:
    """Prepare, then serve on standard input and output; what anybody prints goes to standard error."""
    requests, replies, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    leave_with(requests)
    prepare()
    serve(FrameReader(requests), FrameWriter(replies), time_one)
    os._exit(0)


def main() -> None:
    """Time candidates."""
    import warpsmith.timing.stage  # noqa: F401 - torch, which takes seconds
    from warpsmith.bench.cuda import prepare, time_job

    run(time_job, prepare)


if __name__ == "__main__":
    main()
