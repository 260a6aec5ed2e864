"""The confined child that runs a task's code: `python -m warpsmith.tasks.host.server OPENING`.

Requests and answers are frames on descriptors 3 and 4.

It answers every request with a result or with one sentence of blame; what it cannot answer, its end tells the judge.
"""

import faulthandler
import importlib
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import UsageError
from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter, readable_bytes
from warpsmith.tasks.host.blame import blamed
from warpsmith.tasks.host.requests import Opening, TaskReply, TaskRequest, Verb

if TYPE_CHECKING:
    from warpsmith.tasks.reference import TaskProgram

REQUESTS, ANSWERS = 3, 4
HIGH = 200  # where the channel is moved to, out of the way of code that closes or prints to small descriptors
IDLE_S = 24 * 3600.0
REQUEST_BYTES = 1 << 20
DUMP_AT = 0.9  # of the time of a request: a hanging task writes its stack before the judge ends it
NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "not enough memory", "bad_alloc")


class Host:
    """One task and its program, made at the first request that needs it."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._program: TaskProgram | None = None

    def answer(self, request: TaskRequest) -> bytes:
        """The payload for one request."""
        if request.verb is Verb.DESCRIBE:
            return self._made().task.text().encode()
        if request.verb is Verb.FILTER:
            from warpsmith.tasks.filters import SECONDS, apply_filters

            return apply_filters(self._made(), min(SECONDS, request.seconds / 3)).text().encode()
        from warpsmith.tasks.host.wire import encode
        from warpsmith.tasks.reference import problem

        assert request.trial is not None  # the client always sends one
        return encode(problem(self._made(), request.direction, request.trial))

    def _made(self) -> "TaskProgram":
        from warpsmith.tasks.formats import program_for

        if self._program is None:
            self._program = program_for(self._opening.target, self._opening.shapes)
        return self._program

    def blame(self, error: BaseException) -> str:
        """The sentence for what a request raised."""
        if isinstance(error, UsageError):
            return str(error)
        said = blamed(error, self._opening.target.folder, self._opening.target.path)
        short = isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY)
        limit = readable_bytes(self._opening.memory_bytes)
        return f"{said} A task may use {limit} of memory: make it smaller or raise the limit." if short else said


def respond(host: Host, request: TaskRequest) -> Frame:
    """The answer to a request, whatever the task's code does in Python."""
    faulthandler.dump_traceback_later(request.seconds * DUMP_AT)
    try:
        return Frame(TaskReply.DONE, host.answer(request))
    except BaseException as error:  # noqa: BLE001 -- the one seam where a task's errors become a sentence
        return Frame(TaskReply.REFUSED, host.blame(error).encode(errors="replace"))
    finally:
        faulthandler.cancel_dump_traceback_later()


def main() -> None:
    """Answer requests until the judge closes."""
    faulthandler.enable()
    opening = Opening.parse(sys.argv[1])
    reader, writer = FrameReader(_moved(REQUESTS, 0)), FrameWriter(_moved(ANSWERS, 1))
    importlib.import_module("warpsmith.tasks.reference.program")  # brings torch, before the clock of a request runs
    os.chdir(opening.target.folder)
    _bound_memory(opening.memory_bytes)
    host, own = Host(opening), os.getpid()
    writer.write(Frame(TaskReply.READY), IDLE_S)
    while not isinstance(frame := reader.read(IDLE_S, REQUEST_BYTES), FrameError):
        request = TaskRequest.parse(frame.payload)
        answer = respond(host, request)
        if os.getpid() != own or writer.write(answer, request.seconds) is not None:
            return  # a copy that the task's code forked has nothing to say


def _bound_memory(limit_bytes: int) -> None:
    """Make an allocation past the limit fail at the line that asks for it: the launcher's own limit would only kill."""
    rows = Path("/proc/self/status").read_text().splitlines()
    used = next(int(row.split()[1]) << 10 for row in rows if row.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + limit_bytes, used + limit_bytes))


def _moved(fd: int, place: int) -> int:
    high = os.dup2(fd, HIGH + place, inheritable=False)
    os.close(fd)
    return high


if __name__ == "__main__":
    main()
    os._exit(0)  # task code may have left threads and exit hooks behind
