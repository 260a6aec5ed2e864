"""Connections and transactions, one writer per process."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Connection, Engine

from warpsmith.archive.dialect import WRITES, is_in_memory
from warpsmith.archive.faults import translate_errors


class Store:
    """The engine and its write lock, shared by threads, not by forked processes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # One writer of this process at a time. SQLite has one writer per file, and threads that wait here need no
        # retries.
        self._lock = threading.RLock()
        self._own = threading.local()
        # The one connection of a database in memory cannot be read while another thread writes.
        self._shared = is_in_memory(engine.url)

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """Open a snapshot, or reuse this thread's transaction."""
        # A write transaction of this thread reads its own changes; a second connection would not see them.
        if (current := self._current()) is not None:
            yield current
            return
        lock: AbstractContextManager[object] = self._lock if self._shared else nullcontext()
        with translate_errors(self.engine.url), lock, self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """Open a transaction; a nested one joins the outer."""
        if (current := self._current()) is not None:
            yield current
            return
        # The lock is taken before the connection, so a waiting thread holds no connection of the pool.
        with translate_errors(self.engine.url), self._lock, self.engine.connect() as plain:
            connection = plain.execution_options(**WRITES)
            with connection.begin():
                self._own.connection = connection
                try:
                    yield connection
                finally:
                    self._own.connection = None

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _current(self) -> Connection | None:
        """Return the connection of this thread's transaction, or None."""
        found: Connection | None = getattr(self._own, "connection", None)
        return found
