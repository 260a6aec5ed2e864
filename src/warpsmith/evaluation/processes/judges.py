"""Evaluator processes that share a GPU, each with one evaluation at a time.

Run as `python -m warpsmith.evaluation.processes.judges`.
"""
# A check is hundreds of short calls with Python in between. Threads of one process would wait for the
# interpreter's lock, also while a candidate is timed, so each evaluation has a process. Leases decide
# which process has the GPU. Threads of the caller compile; meanwhile the fork server loads torch.

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from threading import BoundedSemaphore, Lock, Thread
from typing import Protocol

from warpsmith.base import HarnessError, UsageError
from warpsmith.evaluation.config import EvaluationConfig, is_measured, machines_for
from warpsmith.evaluation.processes import warm
from warpsmith.evaluation.processes.nursery import ForkedChild, Nursery, hung_up, tend
from warpsmith.evaluation.processes.pool import pool
from warpsmith.evaluation.run import PreparedEvaluation, grade, prepare, resume
from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.records import Candidate, Model, Record, Verdict

ARGV = (sys.executable, "-P", "-m", "warpsmith.evaluation.processes.judges")
MOST = 8  # each has a context on the GPU, with the kernels that torch loads
# Compilers at once: half of the cores. With a compiler on every core an evaluator process reads its clock milliseconds
# late; and timing takes longer a kernel than these compilers do.
COMPILERS = max(1, (os.cpu_count() or 1) // 2)
JOB, REPLY = 1, 2
LONG_S = 7 * 86400.0  # an evaluation may wait long for the GPU; every stage has limits of its own
JOB_BYTES = 64 << 20


class Grade(Protocol):
    """A function that evaluates a candidate."""

    def __call__(
        self,
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        *,
        prepared: PreparedEvaluation | None = None,
    ) -> Record:
        """Return the candidate's record; a secret seed unless given."""
        ...


GradeFor = Callable[[EvaluationConfig, int, ExitStack], Grade]  # for so many jobs, until the stack closes
Resume = Callable[[PreparedEvaluation], Record]
Answer = Callable[[int, int], None]  # reads requests from one descriptor, writes replies to the other


class EvaluationReply(Model):
    """The reply of an evaluator process: record or error."""

    record: Record | None = None
    refused: str = ""
    error: str = ""


class Judge:
    """One evaluator process, replaced after it died."""

    # Forked at once and not at the first candidate: its preparation takes seconds, in which candidates
    # are compiled.

    def __init__(self, nursery: Nursery, uuid: str = "") -> None:
        self._nursery, self._uuid = nursery, uuid
        self._busy = Lock()
        self._child: ForkedChild | None = nursery.child()

    def resume(self, prepared: PreparedEvaluation) -> Record:
        """Run the remaining stages; raise HarnessError if the process dies."""
        with self._busy:
            if self._child is None or self._child.is_gone:
                self._leave()
                self._child = self._nursery.child()
            try:
                reply = _ask(self._child, prepared.model_copy(update={"uuid": self._uuid}))
            except BaseException:  # at an interrupt an answer may still come, which the next would read as its own
                self._leave()
                raise
            if reply.error or (reply.record is not None and reply.record.verdict is Verdict.FAULT):
                self._leave()  # it may have lost the GPU or memory; the next candidate has another process
        if reply.refused:
            raise UsageError(reply.refused)
        if reply.record is None:
            raise HarnessError(reply.error or "A judge gave no record.")
        return reply.record

    def close(self) -> None:
        """End the process."""
        with self._busy:
            self._leave()

    def _leave(self) -> None:
        """Close the process's pipes, which ends the process."""
        if self._child is not None:
            self._child.close()
            self._child = None


def _ask(child: ForkedChild, prepared: PreparedEvaluation) -> EvaluationReply:
    """Send one prepared evaluation; return the reply or raise HarnessError."""
    found = child.writer.write(Frame(JOB, prepared.text().encode()), LONG_S) or child.reader.read(LONG_S, JOB_BYTES)
    if isinstance(found, FrameError):
        raise HarnessError(f"A judge's process ended ({found.detail}): {child.last_words()}")
    return EvaluationReply.parse(found.payload)


class Judges:
    """Several evaluator processes behind one function."""

    def __init__(self, count: int, argv: tuple[str, ...] = ARGV, uuids: Sequence[str] = ("",)) -> None:
        self._nursery = Nursery(argv)
        # Cards are dealt in turn: with two GPUs and eight processes each card serves four.
        self._all = [Judge(self._nursery, uuids[number % len(uuids)]) for number in range(count)]
        self._free, self._compiling = SimpleQueue[Judge](), BoundedSemaphore(COMPILERS)
        for judge in self._all:
            self._free.put(judge)

    def grade(
        self,
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        *,
        prepared: PreparedEvaluation | None = None,
    ) -> Record:
        """Compile here; run later stages in the next free process."""
        # The number of compilers is limited by a semaphore and not by the number of threads: threads also
        # wait for evaluator processes. An error becomes a fault in this candidate's record, and the batch
        # goes on.
        if prepared is None:
            with self._compiling:
                prepared = prepare(candidate, config, seed)
        if not prepared.remaining_stages:
            return prepared.record
        judge = self._free.get()
        try:
            record = judge.resume(prepared)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - ours, in the record of this candidate; the next has another judge
            record = prepared.failed(error)
        finally:
            self._free.put(judge)
        return record

    def close(self) -> None:
        """End all processes; waiting callers get a fault."""
        self._nursery.close()
        for judge in self._all:
            judge.close()


@contextmanager
def pool_of_judges(
    config: EvaluationConfig, jobs: int, grade_for: GradeFor | None = None
) -> Iterator[tuple[ThreadPoolExecutor, Grade]]:
    """Yield threads and the function that evaluates a candidate."""
    with ExitStack() as until:
        by = (grade_for or judges_for)(config, jobs, until)
        with pool(jobs) as threads:
            try:
                yield threads, by
            except BaseException:  # at an interrupt, drop waiting candidates and end running evaluations
                threads.shutdown(wait=False, cancel_futures=True)
                until.close()
                raise


def judges_for(config: EvaluationConfig, jobs: int, until: ExitStack) -> Grade:
    """Return the evaluating function, across processes if useful."""
    # On the virtual GPU the work is in native executors, and threads suffice.
    if not is_measured(config.device) or jobs < 2:
        return grade
    judges = Judges(min(jobs, MOST), uuids=[machine.uuid for machine in machines_for(config)])
    until.callback(judges.close)
    return judges.grade


def serve(requests: FrameReader, replies: FrameWriter, one: Resume) -> None:
    """Answer requests until the caller closes the pipe."""
    while not isinstance(frame := requests.read(LONG_S, JOB_BYTES), FrameError):
        try:
            reply = EvaluationReply(record=one(PreparedEvaluation.parse(frame.payload)))
        except UsageError as error:
            reply = EvaluationReply(refused=str(error))
        except Exception as error:  # noqa: BLE001 - our fault in one evaluation, told in its record
            reply = EvaluationReply(error=f"{type(error).__name__}: {error}")
        if replies.write(Frame(REPLY, reply.text().encode()), LONG_S) is not None:
            break


def leave_with(fd: int) -> None:
    """End this process when the pipe's other end closes."""
    # A thread waits for the hang-up, since a stage may run for minutes without reading the pipe. The
    # kernel closes the caller's end even if the caller is killed.

    def watch() -> None:
        """Wait for the hang-up, then end the process."""
        hung_up(fd)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run(one: Resume, load: Callable[[], None], get_ready: Callable[[], None]) -> None:
    """Fork evaluator processes that resume prepared evaluations."""
    fork_evaluators(lambda reading, writing: serve(FrameReader(reading), FrameWriter(writing), one), load, get_ready)


def fork_evaluators(
    answer: Answer, load: Callable[[], None], get_ready: Callable[[], None], argv: Sequence[str] = ARGV
) -> None:
    """Load modules, then fork a process for each request."""
    # With two descriptors as program arguments, this process is itself a child that had to start anew: a
    # loaded module had opened CUDA's driver before the fork, and CUDA does not work in a child of such a
    # process.

    def live(reading: int, writing: int) -> None:
        """Answer requests until the caller's end closes."""
        leave_with(reading)
        get_ready()
        answer(reading, writing)

    def child(reading: int, writing: int) -> None:
        """Serve as a forked child, restarted if CUDA was open."""
        if is_without_cuda():  # a loaded module has opened the driver: start again without it
            _again(argv, reading, writing)
        if torch := sys.modules.get("torch"):
            torch.seed()  # without this, all children would draw the same numbers
        live(reading, writing)

    if len(sys.argv) > 2:
        reading, writing = map(int, sys.argv[1:])
        for fd in (reading, writing):
            os.set_inheritable(fd, False)
        load()
        live(reading, writing)
    else:
        tend(load, child)


def is_without_cuda() -> bool:
    """Return whether CUDA was opened before the fork."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda._is_in_bad_fork()


def _again(argv: Sequence[str], *fds: int) -> None:
    """Replace this process by a fresh one with its pipes."""
    for fd in fds:
        os.set_inheritable(fd, True)
    os.execv(sys.executable, [*argv, *map(str, fds)])


if __name__ == "__main__":
    run(resume, warm.load, warm.get_ready)
