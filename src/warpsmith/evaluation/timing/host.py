"""The process where torch is timed: confined as a task's code is, with the GPU, and kept for many questions."""

import atexit
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from warpsmith.base import HarnessError
from warpsmith.evaluation.timing.compiled import compiled_folder
from warpsmith.evaluation.timing.torch_host import FORGET, REPLY, REQUEST, TorchReply, TorchRequest
from warpsmith.isolation import Child, Frame, FrameError, Policy, ProcessLimits, spawn
from warpsmith.tasks.formats import TaskFormat, find
from warpsmith.tasks.host import policy
from warpsmith.tasks.host.opened import OpenOptions
from warpsmith.tasks.suite import folders, root

MODE_S, FORGET_S = 300.0, 30.0  # max-autotune tries many kernels
LOAD_S = 120.0  # eight that load torch at once take ten seconds
LIMITS = ProcessLimits(
    wall_s=7200,
    cpu_s=72000,
    memory_bytes=64 << 30,
    processes=4096,
    open_files=4096,
    file_bytes=32 << 30,  # what all baseline processes of the whole suite compile lies in one folder
    address_space=False,
)
AGED_S = LIMITS.wall_s - 2 * MODE_S  # from which on it may not live through another question


class Host(Protocol):
    """Where torch is timed."""

    def time(self, request: TorchRequest) -> TorchReply:
        """One mode on one case."""
        ...


class Lasting(Host, Protocol):
    """A host that stays for many candidates."""

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        ...

    def forget(self, within_s: float = FORGET_S) -> None:
        """Let go of the last case's tensors: others need the GPU's memory."""
        ...


class TorchHost:
    """The baseline process, confined as a task's code is, with the GPU; resident until closed."""

    def __init__(self, target: str, compilers: int = 0) -> None:
        self._target, self._compilers = target, compilers

    def __enter__(self) -> Self:
        argv = [sys.executable, "-P", "-m", "warpsmith.evaluation.timing.torch_host"]
        self._child: Child = spawn(argv, host_policy(self._target, self._compilers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, error, trace)

    def time(self, request: TorchRequest) -> TorchReply:
        """One mode on one case."""
        sent = self._child.send(Frame(REQUEST, request.text().encode()))
        found = sent or self._child.receive(MODE_S, REPLY)
        if isinstance(found, FrameError):
            self._child.kill()
            ended = self._child.wait()
            last = ended.stderr.decode(errors="replace")[-500:]
            raise HarnessError(f"The baseline process {ended.sentence(self._child.policy)} ({found.detail}): {last}")
        return TorchReply.parse(found.payload.decode())

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked: an hour without a question ends it."""
        return self._child.is_alive

    def forget(self, within_s: float = FORGET_S) -> None:
        """Let go of the last case's tensors."""
        found = self._child.send(Frame(FORGET)) or self._child.receive(within_s, REPLY)
        if isinstance(found, FrameError):
            raise HarnessError(f"The baseline process does not let go of its tensors: {found.detail}")


class Resident:
    """One baseline process for many questions, begun when it is first needed and again after it has died or aged.

    It takes seconds to begin. The end of this process ends it.
    """

    def __init__(self, start: Callable[[], AbstractContextManager[Lasting]]) -> None:
        self._start = start
        self._open = ExitStack()
        self._host: Lasting | None = None
        self._begin_s = 0.0

    def begin(self) -> Host:
        """Let it load torch, if it has not begun or has ended since; that takes seconds, and no GPU."""
        is_young = time.monotonic() - self._begin_s < AGED_S
        if self._host is not None and not (is_young and self._host.is_alive):
            self.close()
        if self._host is None:
            self._host, self._begin_s = self._open.enter_context(self._start()), time.monotonic()
        return self._host

    def rest(self, within_s: float = FORGET_S) -> None:
        """Nobody asks for a while; one that does not let go of its tensors is ended."""
        if self._host is None:
            return
        try:
            self._host.forget(within_s)
        except HarnessError:
            self.close()
        except BaseException:  # an answer may still be on its way
            self.close()
            raise

    def time(self, request: TorchRequest) -> TorchReply:
        """One mode on one case; whoever asks has the GPU to itself, so requests do not meet."""
        host = self.begin()
        try:
            reply = host.time(request)
        except BaseException:  # whatever it is, an answer may still be on its way
            self.close()
            raise
        if reply.lost:
            self.close()
        return reply

    def close(self) -> None:
        """End it; the next question begins another."""
        self._host = None
        self._open.close()


def host_for(target: str, until: ExitStack) -> Host:
    """A baseline process for a task: its own until the stack closes, or the resident one for a task of ours."""
    if find(target).form is TaskFormat.SUITE:
        until.callback(_of_suite().rest)
        return _of_suite()
    own = Resident(lambda: TorchHost(target))
    until.callback(own.close)
    return own


def begin_host(target: str) -> Callable[[], None] | None:
    """Torch will be asked soon: for a task of ours let its process load meanwhile. What waits until it has."""
    if find(target).form is not TaskFormat.SUITE:
        return None
    _of_suite().begin()
    return partial(_of_suite().rest, LOAD_S)  # it answers nobody before it has loaded


@cache
def _of_suite() -> Resident:
    found = Resident(lambda: TorchHost(next(iter(folders()))))
    atexit.register(found.close)
    return found


def host_policy(target: str, compilers: int = 0) -> Policy:
    """As for the task's code, with the GPU; for one of ours with the whole suite, and what torch compiles is kept.

    `compilers`: how many processes torch compiles with; 0: as many as it likes.
    """
    found = find(target)
    base = policy(found, OpenOptions())
    read = base.read
    env = {**base.env, "HOME": "/tmp", "USER": "confined", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor"}
    if compilers:
        env["TORCHINDUCTOR_COMPILE_THREADS"] = str(compilers)
    kept: tuple[Path, ...] = ()
    if found.form is TaskFormat.SUITE:
        folder = compiled_folder()
        read, kept = (*read, root()), (folder,)
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    return replace(base, devices=True, env=env, limits=LIMITS, read=read, write=kept)
