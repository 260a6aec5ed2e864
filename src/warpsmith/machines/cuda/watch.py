"""The watch over a worker's device memory."""

import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from warpsmith.machines.hardware import MemoryUse

# CUDA has no limit of memory per process, so the driver's counters are polled.
POLL_S = 0.05
SHARE = 1 / 16  # of the GPU's memory, beside the arenas that a worker is lent: eight workers and the judges fit
LITTLE = 1 / 16  # of the GPU's memory: where less is free, an allocation of the evaluator's may fail

MemoryMeter = Callable[[], MemoryUse | None]


class MemoryWatch:
    """A thread that ends the worker above its memory share."""

    # In a container the driver often names no processes. Then the fall of free memory counts, minus the
    # memory that this process took. That fall is the worker's only under an exclusive lease; beside
    # others the worker is ended without blame, and the stage is repeated alone.

    def __init__(
        self,
        meter: MemoryMeter,
        family: Callable[[], Collection[int]],
        end: Callable[[], None],
        is_alone: bool,
        own_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._meter, self._family, self._end, self._is_alone, self._own_bytes = meter, family, end, is_alone, own_bytes
        self._before, self._own_before = meter(), own_bytes()
        self._held_before = None if self._before is None else self._before.held_by(family())
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.excess = ""  # how the worker exceeded its share, if it did
        self.is_suspect = False  # whether it was ended because it or a neighbour left little memory

    def look(self) -> None:
        """End the worker if it holds more than its share."""
        # A known excess is a verdict about the candidate. An unknown one is only a suspicion, and acts
        # only when so little is free that neighbours would fail.
        use, before = self._meter(), self._before
        if use is None or before is None or self.excess or self.is_suspect:
            return
        share, held = SHARE * use.total_bytes, use.held_by(self._family())
        if held is not None and self._held_before is not None:
            taken, is_known = held - self._held_before, True
        else:
            fall = before.free_bytes - use.free_bytes - (self._own_bytes() - self._own_before)
            taken, is_known = fall, self._is_alone
        if taken <= share:
            return
        if is_known:
            self.excess = f"It took {taken >> 20} MiB of the GPU's memory; its share is {int(share) >> 20} MiB."
            self._end()
        elif use.free_bytes < LITTLE * use.total_bytes:
            self.is_suspect = True
            self._end()

    @property
    def leaves_little(self) -> bool:
        """Whether an allocation may fail through other processes."""
        use = self._meter()
        return use is not None and use.free_bytes < LITTLE * use.total_bytes

    def _run(self) -> None:
        """Look every 50 ms until the watch is closed."""
        while not self._closed.wait(POLL_S):
            self.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
