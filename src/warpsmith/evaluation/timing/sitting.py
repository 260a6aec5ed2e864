"""The processes of a candidate under the clock."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from warpsmith.evaluation.timing.baseline_process import BaselineHost, open_baseline_host
from warpsmith.evaluation.timing.null import EmptyKernelForm
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.cuda import LIMITS, Buffers, Player, RepeatableCall, Room
from warpsmith.tasks.reference import Problem

WAITED_S = 120.0  # for the clock, at most
OLD_S = LIMITS.wall_s - 600.0  # from which on a process may not live through another window


class Sitting:
    """The processes of one candidate under the clock: a player a window, and torch beside them.

    No host code of the candidate's runs in any of them.
    """

    def __init__(
        self,
        subject: TimingSubject,
        runtime: Path,
        arenas: Room,
        call_s: float,
        clock: Callable[[], float] = time.monotonic,
        open_player: Callable[..., AbstractContextManager[Player]] = Player,
        open_buffers: Callable[[Room], AbstractContextManager[Buffers]] = Buffers,
    ) -> None:
        self._subject, self._runtime, self._arenas, self._call_s = subject, runtime, arenas, call_s
        self._clock, self._open_player, self._open_buffers = clock, open_player, open_buffers
        self._players: dict[int, tuple[Player, ExitStack, float]] = {}  # with the time when each began
        self._open = ExitStack()
        self._begin_s = clock()
        self.is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End its processes."""
        self._open.close()
        self.is_open = False

    @property
    def is_fresh(self) -> bool:
        """Whether its processes, which live for a limited time, have most of it before them."""
        return self._clock() - self._begin_s < WAITED_S

    def player(self, number: int, recorded: RepeatableCall) -> Player:
        """The player of a window, about to repeat this call."""
        known = self._players.get(number)
        if known is not None:
            player, until, begin_s = known
            is_young = self._clock() - begin_s < OLD_S
            if is_young and not player.failure:
                player.play(recorded)
            if is_young and not player.failure:
                return player
            until.close()  # it may have died while it waited, by no fault of what it shall repeat
        until, bases = self._open.enter_context(ExitStack()), recorded.recording.bases
        player = until.enter_context(
            self._open_player(self._subject.artifact, self._runtime, self._buffers, bases, self._call_s)
        )
        self._players[number] = player, until, self._clock()
        player.play(recorded)
        return player

    @cached_property
    def _buffers(self) -> Buffers:
        return self._open.enter_context(self._open_buffers(self._arenas))

    def form(self, outline: Problem) -> EmptyKernelForm:
        """What of its calls costs time though nothing is computed."""
        return EmptyKernelForm(self._subject.launches, len(outline.native))

    @cached_property
    def torch(self) -> BaselineHost:
        """The resident baselines."""
        return open_baseline_host(self._subject.target, self._open)
