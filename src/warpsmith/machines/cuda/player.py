"""Replay of a captured call in a process without host code of the candidate."""
# Every replay gets fresh inputs, and its results are compared like those of any call. A capture that
# leaves work out therefore gives wrong results, and a false capture gains nothing. design/replay.md has
# the attacks that led here.

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
    """A replay process: a worker that repeats captured calls."""

    def __init__(
        self,
        artifact: Path,
        runtime: Path,
        buffers: Buffers,
        bases: Sequence[int],
        call_s: float,
        gpu: GpuAccess = CUDA,
    ) -> None:
        """Prepare a replay process on buffers at the given addresses."""
        # Captured parameters contain addresses. The arenas must therefore lie at `bases`, where they were
        # at the capture; any other place would make pointers inside structs point nowhere.
        super().__init__(artifact, "", runtime, buffers, call_s, bases, gpu=gpu)
        self._recorded: RepeatableCall | None = None
        self._contents: list[Tensor] = []

    def play(self, recorded: RepeatableCall) -> None:
        """Load a captured call, which later calls then replay."""
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
        """Replay the captured call with fresh arguments."""
        # The slot is always 0: addresses are part of the capture. The host time is that of the capture,
        # since no host function runs here.
        self._restore()
        shown = super().call(arguments, given, 0, mode, cold, timed)
        if shown.clocks is None or self._recorded is None:
            return shown
        return replace(shown, clocks=replace(shown.clocks, host_us=self._recorded.host_us))

    def _restore(self) -> None:
        """Write the candidate's own memory as before the captured call."""
        # All blocks at once, since values in different blocks may have to agree. Before the flush, since
        # bytes that are written after it would be warm in the L2 for the timed call.
        if self._failure is not None or self._recorded is None:
            return
        self._live = self._recorded.held
        for block, contents in zip(self._live, self._contents, strict=True):
            self._kept_bytes(block).copy_(contents)
        self._settle(self._talk.ask(Frame(FrameKind.RESTORE), FrameKind.LOADED))

    def _load(self, opening: ExitStack) -> None:
        """Do nothing: the first capture names the artifact."""
        # The artifact is never loaded with dlopen here: its constructors would be host code of the
        # candidate in the process that keeps time.

    def _told(self, timed: Timed) -> Timed:
        """Return the reply with the captured results and blocks."""
        # The replay process reports no addresses of results: they are the captured ones, already
        # validated.
        if self._recorded is None:
            return timed
        return replace(timed, answer=replace(timed.answer, results=self._recorded.results), blocks=self._recorded.live)

    def _late(self, claims: Sequence[ReportedTensor], results: Sequence[Tensor]) -> list[Tensor]:
        """Return nothing: all replayed work runs on one stream."""
        return []
