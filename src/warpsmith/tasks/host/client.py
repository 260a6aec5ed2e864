"""The judge's side of a confined task: asks, waits no longer than the limit, believes nothing that does not fit."""

import os
import re
import site
import sys
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import warpsmith
from warpsmith.base import HarnessError, UsageError
from warpsmith.isolation import Child, Fault, Frame, FrameError, Policy, ProcessLimits, spawn, system_paths
from warpsmith.records import Confined, Direction, Task, Trial
from warpsmith.tasks.filters import FilterReport
from warpsmith.tasks.formats import ORIGINS, TaskFormat, TaskTarget, read_task, version_of
from warpsmith.tasks.host.opened import OpenOptions
from warpsmith.tasks.host.requests import REQUEST, Opening, TaskReply, TaskRequest, Verb

if TYPE_CHECKING:
    from warpsmith.tasks.reference import Problem

START_S = 120.0  # importing torch on a busy machine
LIFE_S = 24 * 3600.0
TORCH_BYTES = 1 << 30  # the interpreter with torch, beside what the task's code may use
BESIDE = 200  # files beside a task file that it may import
LONGEST = 2000  # characters of a child's sentence
NAME = re.compile(r"\w{1,200}", re.ASCII)
STACK = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)', re.M)


class TaskClient:
    """A task whose code runs in a confined child, started at the first request and ended with the block."""

    def __init__(self, target: TaskTarget, options: OpenOptions) -> None:
        self._target = target
        self._options = options
        self._child: Child | None = None

    def describe(self) -> Task:
        """The task as data."""
        return self._task

    @cached_property
    def _task(self) -> Task:
        if self._target.form in (TaskFormat.SUITE, TaskFormat.OWN):
            return read_task(self._target.path)  # described by its text; nothing of it needs to run
        found = Task.read(self._ask(TaskRequest(verb=Verb.DESCRIBE, seconds=self._options.seconds)))
        if isinstance(found, str):
            self._nonsense(found)
        version = version_of(self._target, self._options.shapes)
        if not NAME.fullmatch(found.name) or (found.version, found.origin) != (version, ORIGINS[self._target.form]):
            self._nonsense("a name, version or origin that is not its own")
        return found

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """One call with its reference; arguments that do not fit the signature are refused."""
        from warpsmith.tasks.host.wire import decode, same_signature

        signature, seconds = self._task.signature(direction), self._options.seconds
        payload = self._ask(TaskRequest(verb=Verb.PROBLEM, seconds=seconds, direction=direction, trial=trial))
        try:
            found = decode(payload)
        except ValueError as error:
            self._nonsense(str(error))
        if not same_signature([argument.kind for argument in signature.arguments], found.arguments):
            self._nonsense("arguments of other kinds than its signature's")
        return found

    def filter(self) -> FilterReport:
        """All filters on it, run beside its code: a task that lies here lies about itself."""
        found = FilterReport.read(self._ask(TaskRequest(verb=Verb.FILTER, seconds=self._options.seconds)))
        if isinstance(found, str):
            self._nonsense(found)
        return found

    @property
    def confined(self) -> Confined:
        """What confinement its code runs under."""
        return self._started().confined

    def _ask(self, request: TaskRequest) -> bytes:
        child = self._started()
        sent = child.send(Frame(REQUEST, request.text().encode()))
        found = sent or child.receive(request.seconds, limit_bytes=self._options.memory_bytes)
        if isinstance(found, FrameError):
            self._blame(found, request)
        if found.kind == TaskReply.REFUSED:
            raise UsageError(_printable(found.payload.decode(errors="replace")))
        if found.kind != TaskReply.DONE:
            self._nonsense(f"a frame of kind {found.kind}")
        return found.payload

    def _started(self) -> Child:
        if self._child is None:
            argv = [sys.executable, "-P", "-m", "warpsmith.tasks.host.server", self._opening().text()]
            self._child = spawn(argv, policy(self._target, self._options))
            ready = self._child.receive(START_S, TaskReply.READY)
            if isinstance(ready, FrameError):
                raise HarnessError(f"The process for a task's code did not start: {self._ended()}.")
        return self._child

    def _opening(self) -> Opening:
        return Opening(
            form=self._target.form,
            path=str(self._target.path),
            name=self._target.name,
            shapes=self._options.shapes,
            memory_bytes=self._options.memory_bytes,
        )

    def _ended(self) -> str:
        assert self._child is not None  # asked only of one that was started
        self._child.kill()
        outcome = self._child.wait()
        return f"{outcome.sentence(self._child.policy)}; {_printable(outcome.stderr.decode(errors='replace')[-500:])}"

    def _blame(self, error: FrameError, request: TaskRequest) -> NoReturn:
        assert self._child is not None  # a frame came from it, or failed to
        if error.fault not in (Fault.LATE, Fault.MISSING, Fault.SHORT):
            self._nonsense(error.detail)
        late = error.fault is Fault.LATE
        if late:
            self._child.kill()
        outcome = self._child.wait()
        where = _last_line(outcome.stderr, self._target.folder) or str(self._target.path)
        if late:
            raise UsageError(
                f"{where}: {request.verb} took longer than {request.seconds:g} s. Make the task smaller or raise "
                "the limit."
            )
        how = outcome.sentence(self._child.policy)
        raise UsageError(f"{where}: the process that ran this task ended at {request.verb}: {how}.")

    def _nonsense(self, detail: str) -> NoReturn:
        raise UsageError(
            f"{self._target.path}: its code wrote on the channel that carries its answers, or changed them: "
            f"{_printable(detail)}."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.__exit__(kind, error, trace)
            self._child = None


def policy(target: TaskTarget, options: OpenOptions) -> Policy:
    """What a task's code may see and use: python, the packages, its own files; no network."""
    packages = [str(path) for path in package_paths()]
    env = {"PYTHONPATH": os.pathsep.join(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    threads = options.threads or min(os.cpu_count() or 1, 16)
    env |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    limits = ProcessLimits(
        wall_s=LIFE_S,
        cpu_s=int(LIFE_S),
        memory_bytes=options.memory_bytes + TORCH_BYTES,
        processes=512,
        address_space=False,  # the host bounds itself, so that Python can say which line asked for too much
    )
    return Policy(read=(*system_paths(), *package_paths()[1:], *visible(target)), limits=limits, env=env)


def package_paths() -> list[Path]:
    """Where packages lie that no environment variable of the child would find: ours, PYTHONPATH's, the user's."""
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found = [Path(warpsmith.__file__).parent.parent, *(Path(entry).absolute() for entry in (*named, *own))]
    return [path for path in dict.fromkeys(found) if path.exists()]


def visible(target: TaskTarget) -> tuple[Path, ...]:
    """A task's own files: its folder, or its file with the Python files and packages beside it."""
    if target.path.is_dir():
        return (target.path,)
    beside = [p for p in sorted(target.path.parent.iterdir()) if p.suffix == ".py" or (p / "__init__.py").is_file()]
    return (target.path, *beside[:BESIDE])


def _last_line(stderr: bytes, folder: Path) -> str | None:
    """Where the code was, from the stack that a dying or hanging interpreter writes: its first line of the task's."""
    for match in STACK.finditer(stderr.decode(errors="replace")):
        if Path(match["file"]).is_relative_to(folder):
            return f"{_printable(match['file'])}:{match['line']}"
    return None


def _printable(text: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text[:LONGEST])
    return shown + ("…" if len(text) > LONGEST else "")
