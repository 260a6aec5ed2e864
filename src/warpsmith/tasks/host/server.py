"""The task process: it runs the code of one foreign task.

It answers every request with a result, or with one sentence that names the task's line at fault. If the process dies,
the evaluator process reports how it ended.
"""

import faulthandler
import importlib
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import UsageError
from warpsmith.isolation import Frame, answer_requests, readable_bytes, take_channel
from warpsmith.tasks.host.requests import Opening, TaskReply, TaskRequest, Verb

if TYPE_CHECKING:
    from warpsmith.tasks.reference import TaskProgram

IDLE_S = 24 * 3600.0
REQUEST_BYTES = 1 << 20
DUMP_AT = 0.9  # of a request's time: a hanging task writes its stack before the process is killed
NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "not enough memory", "bad_alloc")
ADVICE: dict[type[BaseException], str] = {
    RecursionError: "infinite recursion, as far as the interpreter can tell",
    SystemExit: "a task file is imported, so it may not exit",
    ModuleNotFoundError: "a task sees python, the installed packages and its own folder",
}
SHOWN_CHARACTERS = 600  # of a foreign error message


class TaskServer:
    """One task; its program is loaded at the first request that needs it."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._program: TaskProgram | None = None

    def respond(self, request: TaskRequest) -> Frame:
        """Return the answer to a request, or a refusal if the task's code raises."""
        # The stack is written to stderr before the client kills the process, and names the line that hangs.
        faulthandler.dump_traceback_later(request.seconds * DUMP_AT)
        try:
            return Frame(TaskReply.DONE, self._answer(request))
        # BaseException: a task may raise SystemExit or KeyboardInterrupt.
        except BaseException as error:  # noqa: BLE001 - the one place where a task's errors become a sentence
            return Frame(TaskReply.REFUSED, self._explain(error).encode(errors="replace"))
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _answer(self, request: TaskRequest) -> bytes:
        """Return the payload of the answer."""
        if request.verb is Verb.DESCRIBE:
            return self._load_program().task.text().encode()
        if request.verb is Verb.FILTER:
            from warpsmith.tasks.filters import SECONDS, apply_filters

            # The filters get a third of the request's time, since loading and drawing take time as well.
            return apply_filters(self._load_program(), min(SECONDS, request.seconds / 3)).text().encode()
        from warpsmith.tasks.host.wire import encode
        from warpsmith.tasks.reference import problem

        assert request.trial is not None  # the client always sends one
        return encode(problem(self._load_program(), request.direction, request.trial))

    def _load_program(self) -> "TaskProgram":
        from warpsmith.tasks.formats import program_for

        if self._program is None:
            self._program = program_for(self._opening.target, self._opening.shapes)
        return self._program

    def _explain(self, error: BaseException) -> str:
        """Return one sentence for an exception of the task's code."""
        if isinstance(error, UsageError):
            return str(error)
        sentence = explain_error(error, self._opening.target.folder, self._opening.target.path)
        if not isinstance(error, MemoryError) and not any(text in str(error) for text in NO_MEMORY):
            return sentence
        limit = readable_bytes(self._opening.memory_bytes)
        return f"{sentence} A task may use {limit} of memory: make it smaller or raise the limit."


def explain_error(error: BaseException, folder: Path, file: Path) -> str:
    """Return `file:line: Kind: message in function` for an exception.

    The line is the deepest one in the task's folder. If there is none, the task's file stands without a line.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}: not Python: {error.msg}."
    # The deepest line in the task's folder is the author's; deeper frames are torch's.
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if Path(frame.filename).is_relative_to(folder)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else f"{file}: "
    function = f" in {frames[-1].name}" if frames and frames[-1].name != "<module>" else ""
    advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), "")
    return f"{where}{_name_error(error)}{function}.{f' ({advice[0].upper()}{advice[1:]}.)' if advice else ''}"


def _name_error(error: BaseException) -> str:
    """Return the type and the shortened message of an exception."""
    text = " ".join(str(error).split())
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return f"{type(error).__name__}: {shown}".rstrip(". :") if shown else type(error).__name__


def main() -> None:
    """Answer requests until the evaluator process closes its end."""
    faulthandler.enable()
    opening = Opening.parse(sys.argv[1])
    requests, answers = take_channel()
    importlib.import_module("warpsmith.tasks.reference.program")  # loads torch before the clock of a request runs
    os.chdir(opening.target.folder)
    _limit_memory(opening.memory_bytes)
    server = TaskServer(opening)
    answers.write(Frame(TaskReply.READY), IDLE_S)
    answer_requests(
        requests,
        answers,
        lambda frame: server.respond(TaskRequest.parse(frame.payload)),
        idle_s=IDLE_S,
        limit_bytes=REQUEST_BYTES,
        write_s=IDLE_S,
    )


def _limit_memory(limit_bytes: int) -> None:
    """Make an allocation beyond the limit raise MemoryError in the task's line.

    The launcher's own limit is for the whole process tree, and would only kill it.
    """
    rows = Path("/proc/self/status").read_text().splitlines()
    used = next(int(row.split()[1]) << 10 for row in rows if row.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + limit_bytes, used + limit_bytes))


if __name__ == "__main__":
    main()
    os._exit(0)  # task code may have left threads and exit hooks behind
