"""One evaluator process of the pool: forked with torch loaded, it evaluates one request after the other.

A candidate never runs in it, but in a worker of its own. Code of a foreign task runs in a confined task process, which
stays for further candidates of the same task text and is renewed after `MOST_EVALUATIONS` or a fault.

python -m warpsmith.pool.evaluator
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warpsmith.base import UsageError
from warpsmith.evaluation.processes import judges, warm
from warpsmith.evaluation.run import grade
from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.machines.hardware import gpus
from warpsmith.pool.executor import EvaluationRequest
from warpsmith.pool.protocol import LONG_S, MESSAGE_BYTES, REPLY, EvaluationReply
from warpsmith.records import Record, Verdict
from warpsmith.tasks.formats import TaskFormat, TaskTarget, find, version_of
from warpsmith.tasks.host import OpenTask, open_task
from warpsmith.tasks.host.opened import OpenOptions

MOST_EVALUATIONS = 200  # with one task process
ARGV = (*judges.ARGV[:-1], "warpsmith.pool.evaluator")


class TaskKeeper:
    """The reused task process of one foreign task."""

    def __init__(self, start: Callable[[TaskTarget, OpenOptions], OpenTask] = open_task) -> None:
        self._start = start
        self._key: tuple[str, str, OpenOptions] | None = None
        self._opened: OpenTask | None = None
        self._uses = 0

    @contextmanager
    def open(self, target: str, options: OpenOptions) -> Iterator[OpenTask]:
        """Yield the task, reused while unchanged."""
        found = find(target)
        # Tasks of the suite are part of the package and need no process. With `trust`, the user takes the risk on
        # purpose.
        if found.form is TaskFormat.SUITE or options.trust:
            with self._start(found, options) as opened:
                yield opened
            return
        # The version hashes the text of the task's files, so an edited task gets a new process.
        key = (found.label, version_of(found, options.shapes), options)
        if self._opened is None or key != self._key or self._uses >= MOST_EVALUATIONS:
            self.renew()
            self._opened, self._key = self._start(found, options).__enter__(), key
        self._uses += 1
        try:
            yield self._opened
        except BaseException:  # the task process may be the cause
            self.renew()
            raise

    def renew(self) -> None:
        """End the task process; the next evaluation starts a new one."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened, self._key, self._uses = None, None, 0


def evaluate(request: EvaluationRequest, tasks: TaskKeeper) -> Record:
    """Return a request's record; renew tasks after a fault."""
    record = grade(request.candidate, request.config, request.seed, prepared=request.prepared, open_task=tasks.open)
    # A fault may come from the task process, whose state nobody knows any more.
    if record.verdict is Verdict.FAULT:
        tasks.renew()
    return record


def reply_to(payload: bytes, tasks: TaskKeeper) -> EvaluationReply:
    """Return a record, or the reason for none."""
    try:
        return EvaluationReply(record=evaluate(EvaluationRequest.parse(payload), tasks))
    except UsageError as error:
        return EvaluationReply(refused=str(error))
    except Exception as error:  # noqa: BLE001 - a fault of warpsmith in one evaluation; the process goes on
        return EvaluationReply(error=f"{type(error).__name__}: {error}")


def serve(reading: int, writing: int) -> None:
    """Answer requests until the other end closes the pipe."""
    requests, replies, tasks = FrameReader(reading), FrameWriter(writing), TaskKeeper()
    while not isinstance(frame := requests.read(LONG_S, MESSAGE_BYTES), FrameError):
        # One request at a time: the pool's own thread waits for the reply before it sends the next request.
        reply = reply_to(frame.payload, tasks)
        if replies.write(Frame(REPLY, reply.text().encode()), LONG_S) is not None:
            break
    tasks.renew()


def get_ready() -> None:
    """Open the GPU and load the kernels of a check, if there is a GPU."""
    if gpus():
        warm.get_ready()


if __name__ == "__main__":
    judges.fork_evaluators(serve, warm.load, get_ready, ARGV)
