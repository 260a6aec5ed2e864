"""The clock: a process in which one candidate is timed while others are compiled and checked in this one.

Threads of a Python process wait for each other, and whoever is on the clock would wait for all of them; the GPU is its
alone meanwhile, so that everybody else waits as well. Whoever asks holds the lease of the GPU.

python -m warpsmith.bench.clock
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO, Protocol

from warpsmith.base import HarnessError
from warpsmith.bench.choices import Choices
from warpsmith.confine import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.records import Candidate, Model, StageResult

ARGV = (sys.executable, "-P", "-m", "warpsmith.bench.clock")
JOB, REPLY = 1, 2
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
    together: bool  # whether it can launch a grid that waits for itself
    hardware: str
    torch: str


class Reply(Model):
    """The timing stage's result, or what went wrong on our side."""

    result: StageResult | None = None
    error: str = ""


class Timing(Protocol):
    """Who times a candidate elsewhere."""

    def time(self, job: Job) -> StageResult:
        """The timing stage's result."""
        ...


class Clock:
    """The process; it begins at once, since that takes seconds, and again after it has died."""

    def __init__(self, argv: tuple[str, ...] = ARGV) -> None:
        self._argv = argv
        self._begin()

    def time(self, job: Job) -> StageResult:
        """The result of the timing stage; requests do not meet, since whoever asks has the GPU to itself."""
        if self._process.poll() is not None:
            self.close()
            self._begin()
        error = self._writer.write(Frame(JOB, job.text().encode()), JOB_S)
        found = error or self._reader.read(JOB_S, JOB_BYTES)
        if isinstance(found, FrameError):
            last = self._last_words()
            self.close()
            raise HarnessError(f"The clock's process ended ({found.detail}): {last}")
        reply = Reply.parse(found.payload)
        if reply.result is None:
            raise HarnessError(reply.error)
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
        self._writer, self._reader = (
            FrameWriter(self._process.stdin.fileno()),
            FrameReader(self._process.stdout.fileno()),
        )

    def _last_words(self) -> str:
        self._words.seek(0)
        return self._words.read().decode(errors="replace").strip()[-TAIL:]


@contextmanager
def clock_for(choices: Choices, jobs: int) -> Iterator[Clock | None]:
    """A clock where several candidates are evaluated at once on a GPU; else none, since it takes seconds to begin."""
    if choices.device != "cuda" or jobs < 2:
        yield None
        return
    clock = Clock()
    try:
        yield clock
    finally:
        clock.close()


def serve(requests: FrameReader, replies: FrameWriter, time_one: Callable[[Job], StageResult]) -> None:
    """Answer until the other end is closed."""
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


def run(time_one: Callable[[Job], StageResult]) -> None:
    """Serve on standard input and output; what anybody prints goes to standard error."""
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    leave_with(requests)
    serve(FrameReader(requests), FrameWriter(replies), time_one)
    os._exit(0)


def main() -> None:
    """Time candidates."""
    from warpsmith.bench.cuda import ready, time_job

    ready()
    run(time_job)


if __name__ == "__main__":
    main()
