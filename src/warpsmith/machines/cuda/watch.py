"""The watch over a worker's device memory: above its share the worker is ended, so that its neighbours have theirs."""

import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from warpsmith.machines.hardware import MemoryUse

POLL_S = 0.05
SHARE = 1 / 16  # of the GPU's memory, beside the arenas that a worker is lent: eight workers and the judges fit
LITTLE = 1 / 16  # of the GPU's memory: where less is free, an allocation of the evaluator's may fail

MemoryMeter = Callable[[], MemoryUse | None]


class MemoryWatch:
    """Looks at the device's own counters until it is closed; ends the worker at its share.

    Where the driver does not say how much each process holds (a container often hides that), the fall of free memory
    tells it, less what this process took. Only under a lease that keeps others away is that fall the worker's. Beside
    others, if little is left after such a fall, the worker is ended, and the evaluation repeated alone.
    """

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
        """Compare what the worker holds now with its share, and end it if it holds more."""
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
        """Whether so little of the GPU's memory is free that an allocation fails through no fault of this worker."""
        use = self._meter()
        return use is not None and use.free_bytes < LITTLE * use.total_bytes

    def _run(self) -> None:
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
