"""Open a task, and the evaluator process's side of a task process.

Every reply is untrusted: it must come in time, parse, and fit the task.
"""

import os
import re
import site
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import warpsmith
from warpsmith.base import HarnessError, UsageError
from warpsmith.isolation import Frame, FrameError, FrameFault, Policy, ProcessLimits, PythonHost, system_paths
from warpsmith.records import Confined, Direction, Task, Trial
from warpsmith.tasks.filters import FilterReport
from warpsmith.tasks.formats import ORIGINS, TaskFormat, TaskTarget, find, read_task, version_of
from warpsmith.tasks.host.opened import LocalTask, OpenOptions, OpenTask
from warpsmith.tasks.host.requests import REQUEST, Opening, TaskReply, TaskRequest, Verb

if TYPE_CHECKING:
    from warpsmith.tasks.reference import Problem

START_S = 120.0  # importing torch on a busy machine
LIFE_S = 24 * 3600.0
TORCH_BYTES = 1 << 30  # the interpreter with torch, beside the memory that the task's code may use
MOST_BESIDE = 200  # files beside a task file that it may import
SHOWN_CHARACTERS = 2000  # of a sentence that a task process wrote
NAME = re.compile(r"\w{1,200}", re.ASCII)
STACK = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)', re.M)


def open_task(target: str | TaskTarget, options: OpenOptions | None = None) -> OpenTask:
    """Return an open task, confined unless trusted."""
    chosen = options or OpenOptions()
    found = find(target) if isinstance(target, str) else target
    if chosen.shapes and found.form is not TaskFormat.MODULE:
        raise UsageError(f"Task {found.label} has inputs of its own; --input is for file.py:Name alone.")
    # Suite tasks are part of the package; other code runs here only if the user trusts it.
    if found.form is TaskFormat.SUITE or chosen.trust:
        return LocalTask(found, chosen.shapes)
    return TaskClient(found, chosen)


class TaskClient:
    """A task whose code runs in a confined child."""

    def __init__(self, target: TaskTarget, options: OpenOptions) -> None:
        self._target = target
        self._options = options
        self._host: PythonHost | None = None

    def describe(self) -> Task:
        """Return the task's description. Raise UsageError if the task process sends another task's."""
        return self._task

    @cached_property
    def _task(self) -> Task:
        if self._target.form in (TaskFormat.SUITE, TaskFormat.OWN):
            return read_task(self._target.path)  # read from its text; no code needs to run
        found = Task.read(self._request(TaskRequest(verb=Verb.DESCRIBE, seconds=self._options.seconds)))
        if isinstance(found, str):
            self._reject(found)
        # Name, version and origin are known from the files, so a task cannot pass for another.
        version = version_of(self._target, self._options.shapes)
        if not NAME.fullmatch(found.name) or (found.version, found.origin) != (version, ORIGINS[self._target.form]):
            self._reject("a name, version or origin that is not its own")
        return found

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """Return one test input with its reference. Raise UsageError if the arguments do not fit the signature."""
        from warpsmith.tasks.host.wire import decode, same_signature

        signature, seconds = self._task.signature(direction), self._options.seconds
        payload = self._request(TaskRequest(verb=Verb.PROBLEM, seconds=seconds, direction=direction, trial=trial))
        # The payload was written by a process with foreign code, so every number in it is checked.
        try:
            found = decode(payload)
        except ValueError as error:
            self._reject(str(error))
        if not same_signature([argument.kind for argument in signature.arguments], found.arguments):
            self._reject("arguments of other kinds than its signature's")
        return found

    def filter(self) -> FilterReport:
        """Run all task filters in the task process and return their report.

        The report is the task's own statement: a task that forges the report misleads its own user only.
        """
        found = FilterReport.read(self._request(TaskRequest(verb=Verb.FILTER, seconds=self._options.seconds)))
        if isinstance(found, str):
            self._reject(found)
        return found

    @property
    def confined(self) -> Confined:
        """The confinement of the task process, which is started if it does not run."""
        return self._start().child.confined

    def _request(self, request: TaskRequest) -> bytes:
        """Return the payload of the answer. Raise UsageError for a refusal, a death or a wrong frame."""
        frame = Frame(REQUEST, request.text().encode())
        # The byte limit bounds what a task process can make this process hold.
        found = self._start().request(frame, request.seconds, limit_bytes=self._options.memory_bytes)
        if isinstance(found, FrameError):
            self._raise_failure(found, request)
        if found.kind == TaskReply.REFUSED:
            raise UsageError(_printable(found.payload.decode(errors="replace")))
        if found.kind != TaskReply.DONE:
            self._reject(f"a frame of kind {found.kind}")
        return found.payload

    def _start(self) -> PythonHost:
        """Return the task process, started and with torch loaded."""
        if self._host is None:
            options, target = self._options, self._target
            opening = Opening(
                form=target.form,
                path=str(target.path),
                name=target.name,
                shapes=options.shapes,
                memory_bytes=options.memory_bytes,
            )
            self._host = PythonHost("warpsmith.tasks.host.server", task_policy(target, options), opening.text())
            # READY is sent before any code of the task runs, so a failure here is ours.
            ready = self._host.child.receive(START_S, TaskReply.READY)
            if isinstance(ready, FrameError):
                raise HarnessError(f"The process for a task's code did not start: {_printable(self._host.kill())}.")
        return self._host

    def _raise_failure(self, error: FrameError, request: TaskRequest) -> NoReturn:
        """Raise UsageError for a request that failed: late, no answer, or a damaged answer."""
        # A late task is killed first: only then does `wait` return its outcome and its stack.
        assert self._host is not None  # a frame came from it, or failed to
        # A wrong frame is the work of foreign code: only an end or a delay has an innocent cause.
        if error.fault not in (FrameFault.LATE, FrameFault.MISSING, FrameFault.SHORT):
            self._reject(error.detail)
        child, late = self._host.child, error.fault is FrameFault.LATE
        if late:
            child.kill()
        outcome = child.wait()
        # The interpreter of the task process dumps its stack when it hangs or dies.
        where = _find_task_line(outcome.stderr, self._target.folder) or str(self._target.path)
        if late:
            raise UsageError(
                f"{where}: {request.verb} took longer than {request.seconds:g} s. Make the task smaller or raise "
                "the limit."
            )
        how = outcome.describe(child.policy)
        raise UsageError(f"{where}: the process that ran this task ended at {request.verb}: {how}.")

    def _reject(self, detail: str) -> NoReturn:
        """Raise UsageError for an answer that the task process cannot have computed honestly."""
        raise UsageError(
            f"{self._target.path}: its code wrote on the channel that carries its answers, or changed them: "
            f"{_printable(detail)}."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None


def task_policy(target: TaskTarget, options: OpenOptions) -> Policy:
    """Return the confinement policy for a task's code."""
    # The child has its own environment, so the user's search path is passed on as PYTHONPATH.
    packages = [str(path) for path in package_paths()]
    env = {"PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    threads = options.threads or min(os.cpu_count() or 1, 16)
    env |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    # The whole life of the process; each request has a shorter limit of its own.
    limits = ProcessLimits(
        wall_s=LIFE_S,
        cpu_s=int(LIFE_S),
        memory_bytes=options.memory_bytes + TORCH_BYTES,
        processes=512,
        address_space=False,  # the task process limits itself, so that Python can name the line that asks for too much
    )
    return Policy(read=(*system_paths(), *package_paths()[1:], *task_files(target)), limits=limits, env=env)


def package_paths() -> list[Path]:
    """Return the package folders for the child's PYTHONPATH."""
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found = [Path(warpsmith.__file__).parent.parent, *(Path(entry).absolute() for entry in (*named, *own))]
    return [path for path in dict.fromkeys(found) if path.exists()]


def task_files(target: TaskTarget) -> tuple[Path, ...]:
    """Return a task's folder, or its file and neighbours."""
    if target.path.is_dir():
        return (target.path,)
    beside = [p for p in sorted(target.path.parent.iterdir()) if p.suffix == ".py" or (p / "__init__.py").is_file()]
    return (target.path, *beside[:MOST_BESIDE])


def _find_task_line(stderr: bytes, folder: Path) -> str | None:
    """Return the task's first line in a stack, or None."""
    for match in STACK.finditer(stderr.decode(errors="replace")):
        if Path(match["file"]).is_relative_to(folder):
            return f"{_printable(match['file'])}:{match['line']}"
    return None


def _printable(text: str) -> str:
    """Return foreign text without control characters, shortened."""
    shown = "".join(char if char.isprintable() else " " for char in text[:SHOWN_CHARACTERS])
    return shown + ("…" if len(text) > SHOWN_CHARACTERS else "")
