"""The resident pool: one process per user that keeps evaluator processes ready and ends when it is idle.

python -m warpsmith.pool.server EVALUATORS IDLE_MINUTES
"""

import os
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, Lock, Thread

from warpsmith.base import hold_lock
from warpsmith.evaluation.processes.nursery import ForkedChild, Nursery
from warpsmith.isolation import Frame, FrameError
from warpsmith.pool.evaluator import ARGV
from warpsmith.pool.executor import EvaluationRequest
from warpsmith.pool.protocol import (
    EVALUATE,
    GREETING,
    LONG_S,
    MESSAGE_BYTES,
    REPLY,
    STATUS,
    STOP,
    Connection,
    EvaluationReply,
    Greeting,
    PoolStatus,
    Welcome,
    package_digest,
    socket_path,
)
from warpsmith.records import Verdict

BACKLOG = 256
POLL_S = 1.0  # how often a waiting request looks at its peer, and an idle pool at its clock
MOST_EVALUATIONS = 200  # of one evaluator process, so that a leak in a library stays small


class AbandonedError(Exception):
    """The end of a request whose command has closed its connection."""


@dataclass(eq=False)
class Evaluator:
    """One evaluator process, with the task that it evaluated last and may have open."""

    child: ForkedChild
    task: str = ""
    evaluations: int = 0


@dataclass
class Evaluators:
    """Evaluator processes that each run one request at a time."""

    fork: Callable[[], ForkedChild]
    count: int
    free: list[Evaluator] = field(default_factory=list)
    waiting: int = 0
    busy: int = 0
    done: int = 0
    faults: int = 0
    _changed: Condition = field(default_factory=Condition)

    def __post_init__(self) -> None:
        self.free += [Evaluator(self.fork()) for _ in range(self.count)]

    def evaluate(self, request: EvaluationRequest, peer: int) -> EvaluationReply:
        """Run a request in a free evaluator. Raise AbandonedError when the descriptor `peer` hangs up."""
        evaluator = self._take(request.candidate.task, peer)
        reply = EvaluationReply(error="The evaluator process was ended.")
        # Stands for an evaluator that is ended by AbandonedError or another exception, so that `_give_back` replaces
        # it.
        try:
            reply = _ask(evaluator.child, request, peer)
        finally:
            self._give_back(evaluator, request.candidate.task, reply)
        return reply

    def close(self) -> None:
        """End the free evaluators; busy ones end with the pool's process."""
        with self._changed:
            for evaluator in self.free:
                evaluator.child.close()
            self.free.clear()

    def _take(self, task: str, peer: int) -> Evaluator:
        with self._changed:
            self.waiting += 1
            try:
                while not self.free:
                    self._changed.wait(POLL_S)
                    _check_peer(peer)
            finally:
                self.waiting -= 1
            # An evaluator that has this task open is preferred to one with none, and that to one with another.
            chosen = min(self.free, key=lambda one: (one.task != task, one.task != ""))
            self.free.remove(chosen)
            self.busy += 1
            return chosen

    def _give_back(self, evaluator: Evaluator, task: str, reply: EvaluationReply) -> None:
        # After an error or a fault the process may hold a damaged GPU context, so it is replaced.
        is_fault = bool(reply.error) or (reply.record is not None and reply.record.verdict is Verdict.FAULT)
        evaluator.task, evaluator.evaluations = task, evaluator.evaluations + 1
        if is_fault or evaluator.evaluations >= MOST_EVALUATIONS:
            evaluator.child.close()
            evaluator = Evaluator(self.fork())
        with self._changed:
            self.busy, self.done, self.faults = self.busy - 1, self.done + 1, self.faults + is_fault
            self.free.append(evaluator)
            self._changed.notify()


def _ask(child: ForkedChild, request: EvaluationRequest, peer: int) -> EvaluationReply:
    failed = child.writer.write(Frame(EVALUATE, request.text().encode()), LONG_S)
    poll = select.poll()
    poll.register(child.reader.fd, select.POLLIN)
    poll.register(peer, select.POLLRDHUP)
    # Only a peer that hangs up first abandons the request; a reply that is ready is always read.
    if failed is None and child.reader.fd not in dict(poll.poll()):
        raise AbandonedError
    found = failed or child.reader.read(LONG_S, MESSAGE_BYTES)
    if isinstance(found, FrameError):
        return EvaluationReply(error=f"The evaluator process ended ({found.detail}): {child.last_words()}")
    return EvaluationReply.parse(found.payload)


def _check_peer(peer: int) -> None:
    poll = select.poll()
    poll.register(peer, select.POLLRDHUP)
    if poll.poll(0):
        raise AbandonedError


class PoolServer:
    """The pool's socket, and a thread for each connection."""

    def __init__(
        self, evaluators: Evaluators, idle_s: float, greeting: Greeting, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._evaluators, self._idle_s, self._greeting, self._clock = evaluators, idle_s, greeting, clock
        self._started = self._last_used = clock()
        self._open, self._counting = 0, Lock()  # the lock holds for `_open` and `_last_used`
        self._stopping = Event()

    def run(self, listener: socket.socket) -> None:
        """Accept connections until `stop` or the idle time."""
        # The timeout lets the loop look at the stop flag and at the idle time.
        listener.settimeout(POLL_S)
        while not self._stopping.is_set() and not self._is_idle():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with self._counting:
                self._open += 1
            Thread(target=self._serve, args=[Connection(peer)], daemon=True).start()

    def _is_idle(self) -> bool:
        with self._counting:
            return not self._open and self._clock() - self._last_used > self._idle_s

    def _serve(self, connection: Connection) -> None:
        try:
            with suppress(ConnectionError, AbandonedError):
                if self._accept(connection):
                    self._answer(connection)
        finally:
            connection.close()
            with self._counting:
                self._last_used, self._open = self._clock(), self._open - 1

    def _accept(self, connection: Connection) -> bool:
        """Return whether the peer's uid is ours, after the greeting."""
        # The folder's mode keeps other users out already; the kernel's answer holds also if the mode was changed.
        if connection.peer_uid != os.getuid():
            return False
        greeting, refused = Greeting.parse(connection.receive().payload), ""
        # An evaluator has the old package's modules loaded, so its results would carry a wrong version.
        if greeting.package != self._greeting.package:
            refused = "it runs another version of warpsmith"
        elif greeting.environment != self._greeting.environment:
            refused = "it was started with other environment variables"
        connection.send(GREETING, Welcome(refused=refused))
        return True

    def _answer(self, connection: Connection) -> None:
        """Answer one question, also of a refused peer."""
        question = connection.receive()
        match question.kind:
            case kind if kind == EVALUATE:
                request = EvaluationRequest.parse(question.payload)
                connection.send(REPLY, self._evaluators.evaluate(request, connection.fd), LONG_S)
            case kind if kind == STATUS:
                connection.send(REPLY, self.status)
            case kind if kind == STOP:
                connection.send(REPLY, self.status)
                self._stopping.set()

    @property
    def status(self) -> PoolStatus:
        """The counts of this moment."""
        evaluators = self._evaluators
        return PoolStatus(
            pid=os.getpid(),
            package=self._greeting.package,
            running_s=round(self._clock() - self._started, 1),
            evaluators=evaluators.count,
            busy=evaluators.busy,
            waiting=evaluators.waiting,
            done=evaluators.done,
            faults=evaluators.faults,
            idle_minutes=self._idle_s / 60,
        )


def listen(path: Path) -> socket.socket:
    """Return a listening socket with mode 0600, in place of a dead pool's file."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    # The mode is set by the umask, since chmod after bind would leave a moment in which others could connect.
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def main(evaluators: int, idle_minutes: float) -> None:
    """Run this user's only pool until stopped or idle."""
    # Taken before torch loads: the digest is that of the code that this process imports.
    package_digest()  # of the files as they are now
    path = socket_path()
    # patience 0: a second pool must end at once instead of waiting until the first one ends.
    with suppress(BlockingIOError), hold_lock(path.with_suffix(".lock"), patience_s=0.0):
        nursery = Nursery(ARGV)
        try:
            served = Evaluators(nursery.child, evaluators)
            with closing(served), listen(path) as listener:
                PoolServer(served, idle_minutes * 60, Greeting.here()).run(listener)
            path.unlink(missing_ok=True)
        finally:
            nursery.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
