"""Replay of a captured call in a process without host code of the candidate, whose clocks can be trusted.

Whatever was recorded, each repetition has fresh inputs, and its results are looked at like those of any call. So
nothing is gained by a recording that is not true.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from warpsmith.isolation import Frame
from warpsmith.machines.cuda.access import CUDA, GpuAccess
from warpsmith.machines.cuda.room import Buffers
from warpsmith.machines.cuda.session import RESULTS, CudaSession, RepeatableCall
from warpsmith.machines.worker import FrameKind, Mode, ReportedTensor, Shown, Timed, play
from warpsmith.tasks.inputs import Values


class Player(CudaSession):
    """A worker that repeats recordings of one artifact; the buffers are those that they were made on."""

    def __init__(
        self,
        artifact: Path,
        runtime: Path,
        buffers: Buffers,
        bases: Sequence[int],
        call_s: float,
        gpu: GpuAccess = CUDA,
    ) -> None:
        super().__init__(artifact, "", runtime, buffers, call_s, bases, gpu=gpu)
        self._recorded: RepeatableCall | None = None
        self._contents: list[Tensor] = []

    def play(self, recorded: RepeatableCall) -> None:
        """Load a captured call: from now on, calls replay it."""
        self._recorded, self._live, self._edge = recorded, recorded.held, recorded.edge
        self._contents = [one.to(self._views[RESULTS].device) for one in recorded.contents]
        self._settle(
            self._talk.ask(Frame(FrameKind.PLAY, play(str(self._artifact), recorded.recording)), FrameKind.LOADED)
        )

    def call(
        self,
        arguments: Values,
        given: Sequence[Tensor] = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        """Repeat the call on the slot of the recorded one."""
        self._restore()
        shown = super().call(arguments, given, 0, mode, cold, timed)
        if shown.clocks is None or self._recorded is None:
            return shown
        return replace(shown, clocks=replace(shown.clocks, host_us=self._recorded.host_us))

    def _restore(self) -> None:
        """Give memory that lives over calls the values that it had before the recorded call.

        All of it at once: what a kernel keeps in one place may have to agree with what it keeps in another. Before the
        cache is cleaned: what is written here would be warm for the call.
        """
        if self._failure is not None or self._recorded is None:
            return
        self._live = self._recorded.held
        for block, contents in zip(self._live, self._contents, strict=True):
            self._kept_bytes(block).copy_(contents)
        self._settle(self._talk.ask(Frame(FrameKind.RESTORE), FrameKind.LOADED))

    def _load(self, opening: ExitStack) -> None:
        """Do nothing: the artifact is read for its kernels with the first capture."""

    def _told(self, timed: Timed) -> Timed:
        if self._recorded is None:
            return timed
        return replace(timed, answer=replace(timed.answer, results=self._recorded.results), blocks=self._recorded.live)

    def _late(self, claims: Sequence[ReportedTensor], results: Sequence[Tensor]) -> list[Tensor]:
        """Return nothing: everything runs on one stream, whose end was waited for."""
        return []
