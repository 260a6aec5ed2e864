"""Any function of this package as a job: awaited, watched and cancelled. The one mechanism for asynchronous callers."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Watch = Callable[[Any], None]  # takes each event of a function


class JobCancelled(KeyboardInterrupt):
    """Raised in a cancelled function at its next event; functions treat it as Ctrl-C and save what is finished."""


class Job(Generic[T]):
    """A function that runs in a thread of its own. `await` it for its result."""

    def __init__(self, function: Callable[..., T], *arguments: Any, **options: Any) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._is_cancelled = threading.Event()
        self._future: Future[T] = Future()
        options["watch"] = self._watch
        threading.Thread(target=self._run, args=(function, arguments, options), daemon=True).start()

    def cancel(self) -> None:
        """End the function at its next event. Whoever awaits the job gets CancelledError then."""
        self._is_cancelled.set()

    async def events(self) -> AsyncIterator[Any]:
        """Yield the events of the function until it ends."""
        while (event := await asyncio.to_thread(self._events.get)) is not None:
            yield event

    def __await__(self) -> Generator[Any, None, T]:
        return self._result().__await__()

    async def _result(self) -> T:
        try:
            # Shielded: a cancelled awaiter must not lose the result before the function has saved its state.
            return await asyncio.shield(asyncio.wrap_future(self._future))
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _watch(self, event: Any) -> None:
        self._events.put(event)
        if self._is_cancelled.is_set():
            raise JobCancelled

    def _run(self, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            found = function(*arguments, **options)
            if self._is_cancelled.is_set():
                raise JobCancelled
            self._future.set_result(found)
        except JobCancelled:
            self._future.set_exception(asyncio.CancelledError())
        except BaseException as error:  # noqa: BLE001 - raised again where the job is awaited
            self._future.set_exception(error)
        finally:
            self._events.put(None)


def start(function: Callable[..., T], *arguments: Any, **options: Any) -> Job[T]:
    """Start a function of this package that takes `watch`, and return its job."""
    return Job(function, *arguments, **options)


def ignore(_event: Any) -> None:
    """Ignore an event: the watcher where a caller gives none."""
