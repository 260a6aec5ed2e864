"""A session whose clocks are given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from warpsmith.machines.cuda import CUDA, GpuAccess
from warpsmith.machines.cuda.room import Room
from warpsmith.machines.worker.session import Clocks, Mode, Shown
from warpsmith.records import Confined, Failure
from warpsmith.tasks.inputs.values import Values

X = torch.ones(2)


@dataclass
class FakeSession:
    """Answers with the clocks it was given, over and over, or with those of the arguments; a queued call with its own,
    if there are any."""

    ended = False

    clocks: list[Clocks] | Callable[[Values], Clocks]
    queued: Clocks | None = None
    failure: Failure | None = None
    device: str = "cuda"
    confined: Confined = field(default_factory=Confined)
    calls: list[tuple[int, Mode, int]] = field(default_factory=list)
    colds: list[bool] = field(default_factory=list)
    room: Room | None = None
    gpu: GpuAccess = CUDA

    def use(self, room: Room) -> None:
        self.room = room

    def call(
        self,
        arguments: Values,
        given: Sequence[Tensor] = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        assert timed  # its clocks are read
        self.calls.append((slot, mode, len(given)))
        self.colds.append(cold)
        if mode is Mode.QUEUED and self.queued is not None:
            return Shown(self.failure, (X,), clocks=self.queued)
        if callable(self.clocks):
            return Shown(self.failure, (X,), clocks=self.clocks(arguments))
        made = sum(1 for _, earlier, _ in self.calls if self.queued is None or earlier is mode)
        return Shown(self.failure, (X,), clocks=self.clocks[(made - 1) % len(self.clocks)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = True
