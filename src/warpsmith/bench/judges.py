"""Judges: processes that each have a candidate at a time from its artifact on, where many are evaluated on a GPU.

A check is hundreds of short calls with Python in between, and threads of one Python process wait for each other there;
whoever is on the clock would wait for all of them. Who has the GPU is settled by leases, which processes share. Texts
are compiled by threads of whoever asks: meanwhile the judges load torch and open the device.

python -m warpsmith.bench.judges
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import IO, Protocol

from warpsmith.base import HarnessError, UsageError
from warpsmith.bench.choices import Choices
from warpsmith.bench.pool import pool
from warpsmith.bench.run import Begun, begin, go_on, grade
from warpsmith.bench.warm import warm
from warpsmith.confine import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.records import Candidate, Model, Record, Verdict

ARGV = (sys.executable, "-P", "-m", "warpsmith.bench.judges")
MOST = 6  # as many as check and are timed, and one more: each has torch and a context on the GPU, which take seconds
JOB, REPLY = 1, 2
LONG_S = 7 * 86400.0  # a judge may wait for the GPU as long as it is; every stage has limits of its own
JOB_BYTES = 64 << 20
TAIL = 500  # of its last words


class Grade(Protocol):
    """Who evaluates a candidate: this process, or another."""

    def __call__(self, candidate: Candidate, choices: Choices, seed: int | None = None) -> Record:
        """The candidate's record; a secret seed is drawn unless given."""
        ...


GoOn = Callable[[Begun], Record]


class Reply(Model):
    """The record, or why there can be none: the question was wrong, or something on our side."""

    record: Record | None = None
    refused: str = ""
    error: str = ""


class Judge:
    """One process; it begins at once, since that takes seconds, and again after it has died."""

    def __init__(self, argv: tuple[str, ...] = ARGV) -> None:
        self._argv = argv
        self._over = False
        self._begin()

    def go_on(self, begun: Begun) -> Record:
        """What the process says."""
        if self._over:
            raise HarnessError("The judges have ended.")
        if self._process.poll() is not None:
            self.end()
            self._begin()
        reply = self._ask(begun)
        if reply.refused:
            raise UsageError(reply.refused)
        if reply.record is None or reply.record.verdict is Verdict.FAULT:
            self.end()  # it may have lost the GPU, or memory; the next candidate has another
        if reply.record is None:
            raise HarnessError(reply.error or "A judge gave no record.")
        return reply.record

    def close(self) -> None:
        """End it for good."""
        self._over = True
        self.end()

    def end(self) -> None:
        """End the process; whoever asks next begins another."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._words.close()

    def _begin(self) -> None:
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            bufsize=0,
            start_new_session=True,  # an interrupt at the terminal is for whoever asked, who then ends us
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._writer = FrameWriter(self._process.stdin.fileno())
        self._reader = FrameReader(self._process.stdout.fileno())

    def _ask(self, job: Begun) -> Reply:
        if (error := self._writer.write(Frame(JOB, job.text().encode()), LONG_S)) is not None:
            raise self._ended(error)
        found = self._reader.read(LONG_S, JOB_BYTES)
        if isinstance(found, FrameError):
            raise self._ended(found)
        return Reply.parse(found.payload)

    def _ended(self, error: FrameError) -> HarnessError:
        if self._over:
            return HarnessError("The judges have ended.")
        self._process.kill()
        self._process.wait()
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - TAIL))
        last = self._words.read().decode(errors="replace").strip()
        return HarnessError(f"A judge's process ended ({error.detail}): {last}")


class Judges:
    """Several, each of which has one candidate at a time."""

    def __init__(self, count: int, argv: tuple[str, ...] = ARGV) -> None:
        self._free = SimpleQueue[Judge]()
        with ExitStack() as opening:  # none stays behind where another cannot begin
            for _ in range(count):
                self._free.put(opening.enter_context(closing(Judge(argv))))
            self._open = opening.pop_all()

    def grade(self, candidate: Candidate, choices: Choices, seed: int | None = None) -> Record:
        """Compiled here, and the rest by the next one that is free; one that ended in the middle is a fault of ours."""
        begun = begin(candidate, choices, seed)
        if not begun.left:
            return begun.record
        judge = self._free.get()
        try:
            record = judge.go_on(begun)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - ours, in the record of this candidate; the next has another judge
            record = begun.failed(error)
        finally:
            self._free.put(judge)
        return record

    def close(self) -> None:
        """End them all."""
        self._open.close()


@contextmanager
def pool_of_judges(choices: Choices, jobs: int) -> Iterator[tuple[ThreadPoolExecutor, Grade]]:
    """Threads for many candidates and who evaluates one: this process, or others where several share a GPU."""
    with ExitStack() as until:
        by = judges_for(choices, jobs, until)
        with pool(jobs) as threads:
            try:
                yield threads, by
            except BaseException:  # an interrupt: nobody wants what waits or is still evaluated
                threads.shutdown(wait=False, cancel_futures=True)
                until.close()
                raise


def judges_for(choices: Choices, jobs: int, until: ExitStack) -> Grade:
    """Who evaluates one of `jobs` candidates at a time: this process, or others until the stack closes."""
    if choices.device != "cuda" or jobs < 2:
        return grade
    judges = Judges(min(jobs, MOST))
    until.callback(judges.close)
    return judges.grade


def serve(requests: FrameReader, replies: FrameWriter, one: GoOn) -> None:
    """Answer until the other end is closed."""
    while not isinstance(frame := requests.read(LONG_S, JOB_BYTES), FrameError):
        try:
            reply = Reply(record=one(Begun.parse(frame.payload)))
        except UsageError as error:
            reply = Reply(refused=str(error))
        except Exception as error:  # noqa: BLE001 - our fault in one evaluation, told in its record
            reply = Reply(error=f"{type(error).__name__}: {error}")
        if replies.write(Frame(REPLY, reply.text().encode()), LONG_S) is not None:
            break


def leave_with(fd: int) -> None:
    """End this process as soon as the other end of a pipe is closed, whatever it does then."""

    def watch() -> None:
        poll = select.poll()
        poll.register(fd, 0)  # hanging up is always told
        poll.poll()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run(one: GoOn, prepare: Callable[[], None]) -> None:
    """Serve on standard input and output, and prepare beside; what anybody prints goes to standard error."""
    requests, replies, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    leave_with(requests)
    Thread(target=prepare, daemon=True).start()
    serve(FrameReader(requests), FrameWriter(replies), one)
    os._exit(0)


def main() -> None:
    """Evaluate what others have compiled."""
    run(go_on, warm)


if __name__ == "__main__":
    main()
