"""Connections and transactions: short ones for reading, one writer at a time in a process, several steps as one."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Connection, Engine

from warpsmith.archive.dialect import WRITES, in_memory
from warpsmith.archive.faults import translated


class Store:
    """The engine and its lock. Safe for threads; a forked child opens its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.RLock()
        self._own = threading.local()
        # The one connection of a database in memory cannot be read while another thread writes.
        self._shared = in_memory(engine.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state; the one this thread is writing in, if it is."""
        if (current := self._current()) is not None:
            yield current
            return
        lock: AbstractContextManager[object] = self._lock if self._shared else nullcontext()
        with translated(self.engine.url), lock, self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed at its end, whole or not at all; inside another, a part of it."""
        if (current := self._current()) is not None:
            yield current
            return
        with translated(self.engine.url), self._lock, self.engine.connect() as plain:
            connection = plain.execution_options(**WRITES)
            with connection.begin():
                self._own.connection = connection
                try:
                    yield connection
                finally:
                    self._own.connection = None

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()

    def _current(self) -> Connection | None:
        found: Connection | None = getattr(self._own, "connection", None)
        return found
