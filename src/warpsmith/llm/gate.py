"""A limit on concurrent requests, shared by all models of a provider."""

import asyncio
import weakref
from types import TracebackType


class Gate:
    """An `async with` that at most `limit` tasks of an event loop hold at a time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._slots = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> None:
        slots = self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.limit))
        await slots.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots[asyncio.get_running_loop()].release()
