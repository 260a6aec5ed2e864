"""Any function of this package as a job: awaited, watched, cancelled."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Watch = Callable[[Any], None]  # takes each event of a function


class JobCancelled(KeyboardInterrupt):
    """The cancellation signal inside a function."""


class Job(Generic[T]):
    """A function that runs in a thread of its own. `await` it for its result."""

    def __init__(self, function: Callable[..., T], *arguments: Any, **options: Any) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._is_cancelled = threading.Event()
        self._future: Future[T] = Future()
        options["watch"] = self._watch
        # A daemon thread: an abandoned job must not keep the interpreter from ending.
        threading.Thread(target=self._run, args=(function, arguments, options), daemon=True).start()

    def cancel(self) -> None:
        """End the function; awaiters get CancelledError."""
        self._is_cancelled.set()

    async def events(self) -> AsyncIterator[Any]:
        """Yield the events of the function until it ends."""
        # None marks the end of the events.
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
        # The event is delivered before the cancellation, so a watcher misses none.
        self._events.put(event)
        if self._is_cancelled.is_set():
            raise JobCancelled

    def _run(self, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            found = function(*arguments, **options)
            # A function without a further event after the cancellation ends here.
            if self._is_cancelled.is_set():
                raise JobCancelled
            self._future.set_result(found)
        except JobCancelled:
            self._future.set_exception(asyncio.CancelledError())
        except BaseException as error:  # noqa: BLE001 - raised again where the job is awaited
            self._future.set_exception(error)
        finally:
            # In every case, so that a reader of the events never waits for ever.
            self._events.put(None)


def start(function: Callable[..., T], *arguments: Any, **options: Any) -> Job[T]:
    """Start a function of this package that takes `watch`, and return its job."""
    return Job(function, *arguments, **options)


def ignore(_event: Any) -> None:
    """Ignore an event."""
