"""The baseline process, seen from the evaluator process."""

import atexit
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from warpsmith.base import HarnessError, Home
from warpsmith.evaluation.timing.baseline_server import RELEASE, REPLY, REQUEST, TorchReply, TorchRequest
from warpsmith.isolation import Frame, FrameError, Policy, ProcessLimits, PythonHost
from warpsmith.machines.worker import visible_gpu
from warpsmith.tasks.formats import TaskFormat, find
from warpsmith.tasks.host import OpenOptions
from warpsmith.tasks.host.client import task_policy
from warpsmith.tasks.suite import folders, root

MODE_S, RELEASE_S = 300.0, 30.0  # max-autotune tries many kernels
LOAD_S = 120.0  # eight processes that load torch at once take ten seconds
LIMITS = ProcessLimits(
    wall_s=7200,
    cpu_s=72000,
    memory_bytes=64 << 30,
    processes=4096,
    open_files=4096,
    file_bytes=32 << 30,  # compiled code of the whole suite lies in one folder
    address_space=False,
)
OLD_S = LIMITS.wall_s - 2 * MODE_S  # an older process might be ended by its limit during a request
# A folder that others may enter and not list, and folders and files inside it that everybody may write.
PASSABLE, OPEN_FOLDER, OPEN_FILE = 0o711, 0o777, 0o666


class BaselineHost(Protocol):
    """A place where torch is timed."""

    def time(self, request: TorchRequest) -> TorchReply:
        """Time one mode of torch on one case."""
        ...


class LongLivedHost(BaselineHost, Protocol):
    """A baseline host for many candidates."""

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        ...

    def release_memory(self, within_s: float = RELEASE_S) -> None:
        """Free the last case's tensors."""
        # Between two candidates other processes need the GPU's memory.
        ...


class GivenBaselines:
    """A baseline host with one given time."""

    def __init__(self, us: float) -> None:
        self._us = us

    def time(self, _request: TorchRequest) -> TorchReply:
        """Return the given time."""
        return TorchReply(idle_us=(self._us,) * 5, queued_us=(self._us,) * 5, flush_us=(400.0,) * 5)


class BaselineProcess:
    """One confined baseline process, ended by `with`."""

    # Confined because torch runs code of the task, which may be foreign.

    def __init__(self, target: str, compilers: int = 0, uuid: str = "") -> None:
        self._target, self._compilers, self._uuid = target, compilers, uuid

    def __enter__(self) -> Self:
        policy = baseline_policy(self._target, self._compilers, self._uuid)
        self._host = PythonHost("warpsmith.evaluation.timing.baseline_server", policy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.close()

    def time(self, request: TorchRequest) -> TorchReply:
        """Time one mode; raise HarnessError without an answer."""
        found = self._host.request(Frame(REQUEST, request.text().encode()), MODE_S, REPLY)
        if isinstance(found, FrameError):
            raise HarnessError(f"The baseline process does not answer ({found.detail}): {self._host.kill()}")
        return TorchReply.parse(found.payload.decode())

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs: it ends after an hour without a request."""
        return self._host.child.is_alive

    def release_memory(self, within_s: float = RELEASE_S) -> None:
        """Free tensors; raise HarnessError without a confirmation."""
        found = self._host.request(Frame(RELEASE), within_s, REPLY)
        if isinstance(found, FrameError):
            raise HarnessError(f"The baseline process does not free its tensors: {found.detail}")


class ResidentHost:
    """A baseline process for many requests."""

    # Started at the first request, and again after it died or grew old: loading torch takes seconds. The
    # end of this process ends it.

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[LongLivedHost]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._clock = start, clock
        self._open = ExitStack()
        self._host: LongLivedHost | None = None
        self._started_s = 0.0

    def start(self) -> BaselineHost:
        """Return the process, started if missing or old."""
        # Uses no GPU, so a start needs no lease and can run beside a check.
        is_young = self._clock() - self._started_s < OLD_S
        if self._host is not None and not (is_young and self._host.is_alive):
            self.close()
        if self._host is None:
            self._host, self._started_s = self._open.enter_context(self._start()), self._clock()
        return self._host

    def release_memory(self, within_s: float = RELEASE_S) -> None:
        """Free tensors; end a process that does not confirm."""
        if self._host is None:
            return
        try:
            self._host.release_memory(within_s)
        except HarnessError:
            self.close()
        except BaseException:  # at an interrupt an answer may still come, which the next request would read as its own
            self.close()
            raise

    def time(self, request: TorchRequest) -> TorchReply:
        """Time one mode on one case."""
        # The caller holds an exclusive lease, so two requests never overlap. After an interrupt the
        # process is ended: its late answer would be read as that of the next request.
        host = self.start()
        try:
            reply = host.time(request)
        except BaseException:  # as above
            self.close()
            raise
        if reply.lost:
            self.close()
        return reply

    def close(self) -> None:
        """End the process; the next request starts another."""
        self._host = None
        self._open.close()


def open_baseline_host(target: str, until: ExitStack, uuid: str = "") -> BaselineHost:
    """Return the baseline host of a task."""
    # Suite tasks share one process. A foreign task gets its own until the stack closes, so that its code
    # never runs in a process that another task uses.
    if find(target).form is TaskFormat.SUITE:
        until.callback(_suite_host(uuid).release_memory)
        return _suite_host(uuid)
    own = ResidentHost(lambda: BaselineProcess(target, uuid=uuid))
    until.callback(own.close)
    return own


def preload_torch(target: str, uuid: str = "") -> Callable[[], None] | None:
    """Start the suite's host; return a waiting function, or None."""
    # None for a foreign task, whose own process starts later.
    if find(target).form is not TaskFormat.SUITE:
        return None
    _suite_host(uuid).start()
    return partial(_suite_host(uuid).release_memory, LOAD_S)  # the process answers when it has loaded


@cache
def _suite_host(uuid: str) -> ResidentHost:
    """Return one GPU's baseline process for suite tasks."""
    found = ResidentHost(lambda: BaselineProcess(next(iter(folders())), uuid=uuid))
    atexit.register(found.close)
    return found


def baseline_policy(target: str, compilers: int = 0, uuid: str = "") -> Policy:
    """Return the policy of a baseline process."""
    # Suite tasks keep their compiled code for the next process. Foreign code must not write code that a
    # later process runs, so its cache is in the private /tmp. 0 compilers leaves the number to torch.
    found = find(target)
    base = task_policy(found, OpenOptions())
    read = base.read
    env = {**base.env, "HOME": "/tmp", "USER": "confined", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor"}
    env |= visible_gpu(uuid)
    if compilers:
        env["TORCHINDUCTOR_COMPILE_THREADS"] = str(compilers)
    writable: tuple[Path, ...] = ()
    if found.form is TaskFormat.SUITE:  # foreign code must not write compiled code that a later process runs
        folder = compiled_folder()
        read, writable = (*read, root()), (folder,)
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    return replace(base, devices=True, env=env, limits=LIMITS, read=read, write=writable)


def compiled_folder() -> Path:
    """Return the folder of code compiled for suite tasks."""
    # As root every confined child has another user id and could not write to files of the child before: a
    # mode of torch would fail, and the baseline would be weaker. The content is therefore open to
    # everybody, below a random name that others cannot list.
    around = Home.locate().cache / "inductor"
    around.mkdir(parents=True, exist_ok=True)
    inside = next(iter(sorted(around.glob("torch-*"))), around / f"torch-{secrets.token_hex(16)}")
    inside.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        around.chmod(PASSABLE)
        open_to_everybody(inside)
    return inside


def open_to_everybody(folder: Path) -> None:
    """Let every user write to a folder, without following links."""
    for place, _, names in os.walk(folder):
        _add_permissions(Path(place), OPEN_FOLDER)
        for name in names:
            _add_permissions(Path(place) / name, OPEN_FILE)


def _add_permissions(path: Path, mode: int) -> None:
    """Add permissions to a file unless it is a link."""
    try:
        found = path.lstat()
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & mode != mode:
            path.chmod(stat.S_IMODE(found.st_mode) | mode)
    except FileNotFoundError:  # another process renames its temporary files meanwhile
        return
