"""Baselines: the best of torch's modes on a case, from a process of their own, kept for the same hardware and torch."""

import atexit
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from pydantic import Field

from warpsmith.base import HarnessError, Home, digest_json, median, write_atomic
from warpsmith.confine import Child, Frame, FrameError, Limits, Policy, spawn
from warpsmith.records import MODES, Case, Direction, Model, Task
from warpsmith.tasks.client import policy
from warpsmith.tasks.opened import OpenOptions
from warpsmith.tasks.suite import folders, root
from warpsmith.tasks.target import Form, find
from warpsmith.timing.compiled import compiled_folder
from warpsmith.timing.torch_host import FORGET, REPLY, REQUEST, Reply, Request

SAMPLES = 25
MODE_S, FORGET_S = 300.0, 30.0  # max-autotune tries many kernels
LIMITS = Limits(
    wall_s=7200,
    cpu_s=72000,
    memory_bytes=64 << 30,
    processes=4096,
    open_files=4096,
    file_bytes=32 << 30,  # what all baseline processes of the whole suite compile lies in one folder
    address_space=False,
)
DRIFT = 0.05  # of the judge's own flush, past which kept baselines are of another day
NEAR = 1.15  # times the best kept mode: what took longer is not measured again for a claim


class Baseline(Model):
    """One mode's event times in microseconds."""

    mode: str
    idle_us: tuple[float, ...]
    queued_us: tuple[float, ...]

    @property
    def us(self) -> float:
        """Its device time."""
        return median(self.queued_us)

    def joined(self, other: "Baseline") -> "Baseline":
        """Two windows of one mode."""
        return Baseline(
            mode=self.mode, idle_us=self.idle_us + other.idle_us, queued_us=self.queued_us + other.queued_us
        )


class Baselines(Model):
    """The modes that ran on a case, those that did not and why, and the flush that tells one day from another."""

    modes: tuple[Baseline, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    flush_us: float = 0.0
    kept: tuple[str, ...] = ()  # of the modes: those of an earlier day among times of now

    @property
    def best(self) -> Baseline:
        """The fastest by device time: what a candidate is held against."""
        return min(self.modes, key=lambda baseline: baseline.us)

    def joined(self, other: "Baselines") -> "Baselines":
        """Two windows of each mode that ran in both."""
        again = {baseline.mode: baseline for baseline in other.modes}
        both = tuple(one.joined(again[one.mode]) for one in self.modes if one.mode in again)
        return Baselines(modes=both, failed={**self.failed, **other.failed}, flush_us=self.flush_us)

    def drifted(self, flush_us: float) -> bool:
        """Whether this GPU's memory is faster or slower now than when they were measured."""
        return bool(self.flush_us and flush_us) and abs(flush_us / self.flush_us - 1) > DRIFT

    def lacking(self, modes: Sequence[str]) -> tuple[str, ...]:
        """Of some modes those that nobody has tried here."""
        tried = {*(one.mode for one in self.modes), *self.failed}
        return tuple(mode for mode in modes if mode not in tried)

    def only(self, modes: Sequence[str]) -> "Baselines":
        """Of these modes what there is."""
        chosen = tuple(one for one in self.modes if one.mode in modes)
        failed = {mode: why for mode, why in self.failed.items() if mode in modes}
        return self.model_copy(update={"modes": chosen, "failed": failed})

    def near(self) -> tuple[str, ...]:
        """The modes that may be the best another time: within reach of the best one, or without a time so far."""
        reach_us = NEAR * self.best.us
        return (*(one.mode for one in self.modes if one.us <= reach_us), *self.failed)

    def beside(self, kept: "Baselines") -> "Baselines":
        """These, and of an earlier day the modes that were not asked now."""
        asked = {*(one.mode for one in self.modes), *self.failed}
        others = tuple(one for one in kept.modes if one.mode not in asked)
        failed = {mode: why for mode, why in kept.failed.items() if mode not in asked}
        return self.model_copy(
            update={
                "modes": (*self.modes, *others),
                "failed": {**failed, **self.failed},
                "kept": tuple(one.mode for one in others),
                "flush_us": kept.flush_us,
            }
        )

    def notes(self) -> tuple[str, ...]:
        """A sentence for each mode that gave no time, and one for those that were not measured again."""
        without = tuple(f"torch's {mode} gave no time: {why}" for mode, why in self.failed.items())
        if not self.kept:
            return without
        slower = f"more than {NEAR - 1:.0%} slower than the best when all were measured"
        return (*without, f"not measured again, since {slower}: torch's {', '.join(self.kept)}")


class Host(Protocol):
    """Where torch is timed."""

    def time(self, request: Request) -> Reply:
        """One mode on one case."""
        ...


class Lasting(Host, Protocol):
    """A host that stays for many candidates."""

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        ...

    def forget(self) -> None:
        """Let go of the last case's tensors: others need the GPU's memory."""
        ...


class TorchHost:
    """The baseline process, confined as a task's code is, with the GPU; resident until closed."""

    def __init__(self, target: str, compilers: int = 0) -> None:
        self._target, self._compilers = target, compilers

    def __enter__(self) -> Self:
        argv = [sys.executable, "-P", "-m", "warpsmith.timing.torch_host"]
        self._child: Child = spawn(argv, host_policy(self._target, self._compilers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.__exit__(kind, error, trace)

    def time(self, request: Request) -> Reply:
        """One mode on one case."""
        sent = self._child.send(Frame(REQUEST, request.text().encode()))
        found = sent or self._child.receive(MODE_S, REPLY)
        if isinstance(found, FrameError):
            self._child.kill()
            ended = self._child.wait()
            last = ended.stderr.decode(errors="replace")[-500:]
            raise HarnessError(f"The baseline process {ended.sentence(self._child.policy)} ({found.detail}): {last}")
        return Reply.parse(found.payload.decode())

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked: an hour without a question ends it."""
        return self._child.is_alive

    def forget(self) -> None:
        """Let go of the last case's tensors."""
        found = self._child.send(Frame(FORGET)) or self._child.receive(FORGET_S, REPLY)
        if isinstance(found, FrameError):
            raise HarnessError(f"The baseline process does not let go of its tensors: {found.detail}")


class Resident:
    """One baseline process for many questions, begun when it is first needed and again after it has died.

    It takes seconds to begin. The end of this process ends it.
    """

    def __init__(self, start: Callable[[], AbstractContextManager[Lasting]]) -> None:
        self._start = start
        self._open = ExitStack()
        self._host: Lasting | None = None

    def begin(self) -> Host:
        """Let it load torch, if it has not begun or has ended since; that takes seconds, and no GPU."""
        if self._host is not None and not self._host.is_alive:
            self.close()
        self._host = self._host or self._open.enter_context(self._start())
        return self._host

    def rest(self) -> None:
        """Nobody asks for a while; one that does not let go of its tensors is ended."""
        if self._host is None:
            return
        try:
            self._host.forget()
        except HarnessError:
            self.close()
        except BaseException:  # an answer may still be on its way
            self.close()
            raise

    def time(self, request: Request) -> Reply:
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
    if find(target).form is Form.SUITE:
        until.callback(_of_suite().rest)
        return _of_suite()
    own = Resident(lambda: TorchHost(target))
    until.callback(own.close)
    return own


def begin_host(target: str) -> None:
    """Torch will be asked soon: for a task of ours let its process load meanwhile."""
    if find(target).form is Form.SUITE:
        _of_suite().begin()


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
    if found.form is Form.SUITE:
        folder = compiled_folder()
        read, kept = (*read, root()), (folder,)
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    return replace(base, devices=True, env=env, limits=LIMITS, read=read, write=kept)


def store(
    hardware: str,
    torch_version: str,
    task: Task,
    direction: Direction,
    case: Case,
    cold: bool = True,
) -> Path:
    """Where the baselines of a case lie: what they depend on is in the name."""
    key = digest_json([hardware, torch_version, task.version, direction, case.model_dump(mode="json"), cold, 3])
    return Home.here().data / "baselines" / f"{key}.json"


def load(path: Path) -> Baselines | None:
    """What was measured before, if anything."""
    return Baselines.parse(path.read_text()) if path.exists() else None


def believed(path: Path, flush_us: float) -> Baselines | None:
    """What was measured before, unless the GPU has drifted since."""
    found = load(path)
    return None if found is None or found.drifted(flush_us) else found


def asked(target: str, task: Task, direction: Direction, case: Case, cold: bool = True) -> Request:
    """The question for a case; the mode is named when it is asked."""
    return Request(
        target=target,
        direction=direction,
        case=case,
        mode="",
        samples=SAMPLES,
        tf32=task.precision.tf32,
        cold=cold,
    )


def uncompiled(modes: Sequence[str]) -> tuple[str, ...]:
    """Of some modes those that compile nothing; all of them when there is none."""
    return tuple(mode for mode in modes if mode.startswith("eager")) or tuple(modes)


def measure(host: Host, request: Request, modes: Sequence[str] = MODES) -> Baselines:
    """Time every mode on the request's case."""
    return _running(_window(host, request, modes), request)


def completed(host: Host, request: Request, kept: Baselines | None, modes: Sequence[str], flush_us: float) -> Baselines:
    """What is kept, and of the modes that are asked for those that are not, measured now."""
    lacking = tuple(modes) if kept is None else kept.lacking(modes)
    now = _window(host, request, lacking).model_copy(update={"flush_us": flush_us})
    found = now.beside(kept).model_copy(update={"kept": ()}) if kept else now
    _running(found.only(modes), request)
    return found


def _running(found: Baselines, request: Request) -> Baselines:
    """These, if there is one among them."""
    if not found.modes:
        raise HarnessError(
            f"No mode of torch runs {request.target} {request.direction} on case {request.case.name}: "
            f"{dict(found.failed)}"
        )
    return found


def measure_again(host: Host, request: Request, kept: Baselines) -> Baselines:
    """Two windows now of the modes that came near the best when all were kept, beside the others of then.

    Should one of the others be the best after all, every mode is measured: nobody is held against a time of then.
    """
    near = kept.near()
    now = _window(host, request, near).joined(_window(host, request, near))
    found = now.beside(kept)
    if found.modes and found.best.mode not in found.kept:
        return found
    every = (*(one.mode for one in kept.modes), *kept.failed)
    return measure(host, request, every).joined(measure(host, request, every))


def _window(host: Host, request: Request, modes: Sequence[str]) -> Baselines:
    replies = {mode: host.time(request.model_copy(update={"mode": mode})) for mode in modes}
    found = tuple(
        Baseline(mode=mode, idle_us=reply.idle_us, queued_us=reply.queued_us)
        for mode, reply in replies.items()
        if reply.queued_us
    )
    failed = {mode: reply.error for mode, reply in replies.items() if not reply.queued_us}
    flushes = [flush for reply in replies.values() for flush in reply.flush_us]
    return Baselines(modes=found, failed=failed, flush_us=median(flushes) if flushes else 0.0)


def keep(path: Path, baselines: Baselines) -> None:
    """Keep them for the next candidate."""
    write_atomic(path, baselines.text())
