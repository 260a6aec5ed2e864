"""A timing session: replay processes and the baseline process."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from types import TracebackType
from typing import Self

from warpsmith.evaluation.timing.baseline_process import BaselineHost, GivenBaselines, open_baseline_host
from warpsmith.evaluation.timing.empty_kernel import EmptyKernelForm
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda import LIMITS, Buffers, CudaMachine, Player, RepeatableCall, Room
from warpsmith.tasks.reference import Problem

WAITED_S = 120.0  # most seconds that a session may wait for the GPU before it is used
OLD_S = LIMITS.wall_s - 600.0  # an older process might be ended by its limit during a window


class TimingSession:
    """Replay processes of one candidate, with torch beside them."""

    # Each window has a process of its own: the addresses of code and parameters change the time of a
    # short kernel for the life of a process. No host code of the candidate runs in any of them.

    def __init__(
        self,
        subject: TimingSubject,
        machine: CudaMachine,
        arenas: Room,
        call_s: float,
        clock: Callable[[], float] = time.monotonic,
        open_player: Callable[..., AbstractContextManager[Player]] = Player,
        open_buffers: Callable[..., AbstractContextManager[Buffers]] = Buffers,
    ) -> None:
        self._clock, self._open_player, self._open_buffers = clock, open_player, open_buffers
        self._subject, self.machine, self._arenas, self._call_s = subject, machine, arenas, call_s
        self._replayers: dict[int, tuple[Player, ExitStack, float]] = {}  # with the time of their start
        self._open = ExitStack()
        self._started_s = clock()
        self.is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the replay processes and free their arenas."""
        self._open.close()
        self.is_open = False

    @property
    def is_fresh(self) -> bool:
        """Whether the session is below two minutes old."""
        return self._clock() - self._started_s < WAITED_S

    def replayer(self, number: int, captured: RepeatableCall) -> Player:
        """Return a window's replay process, loaded with a capture."""
        # A process that died while it waited for the GPU is replaced: its death says nothing about the
        # captured call. A process near its time limit is replaced as well.
        known = self._replayers.get(number)
        if known is not None:
            replayer, until, started_s = known
            is_young = self._clock() - started_s < OLD_S
            if is_young and not replayer.failure:
                replayer.play(captured)
            if is_young and not replayer.failure:
                return replayer
            until.close()  # its process may have died while it waited, which says nothing of the captured call
        until, bases = self._open.enter_context(ExitStack()), captured.recording.bases
        artifact, runtime, gpu = self._subject.artifact, self.machine.runtime, self.machine.access
        replayer = until.enter_context(self._open_player(artifact, runtime, self._buffers, bases, self._call_s, gpu))
        self._replayers[number] = replayer, until, self._clock()
        replayer.play(captured)
        return replayer

    @cached_property
    def _buffers(self) -> Buffers:
        """The arenas of all replay processes, allocated once."""
        return self._open.enter_context(self._open_buffers(self._arenas, self.machine.access))

    def empty_form(self, outline: Problem) -> EmptyKernelForm:
        """Return the counts that the empty kernel must match."""
        return EmptyKernelForm(self._subject.launches, len(outline.native))

    @cached_property
    def torch(self) -> BaselineHost:
        """The baseline process of the task."""
        if (given := self.machine.given) is not None:
            return GivenBaselines(given.torch_us)
        return open_baseline_host(self._subject.target, self._open, self.machine.uuid)
