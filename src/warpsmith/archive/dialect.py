"""Differences between databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from warpsmith.base import MachineError, hold_lock

BEGIN = "warpsmith_begin"  # the execution option of a connection that says how its transactions begin
WRITES = {BEGIN: "BEGIN IMMEDIATE"}  # two readers that both turn writer could only fail, however long they wait
OLDEST = (3, 35)  # RETURNING
ADVISORY = 0x77617270  # "warp": the lock of PostgreSQL that founders of an archive share
Insert = sqlite.Insert | postgresql.Insert


def connect(url: URL, wait_s: float) -> Engine:
    """Return the database's engine; create a SQLite folder."""
    if url.get_backend_name() != "sqlite":
        # pool_pre_ping replaces connections that the server closed while a search waited for hours.
        return create_engine(url, pool_pre_ping=True)
    if sqlite3.sqlite_version_info < OLDEST:
        raise MachineError(f"Python's SQLite is {sqlite3.sqlite_version}; the archive needs 3.35 or newer.")
    # Threads share the engine; the pool, or for memory the lock of Store, gives a connection to one thread at a time,
    # so sqlite3's own check is off.
    arguments: dict[str, Any] = {"timeout": wait_s, "check_same_thread": False}
    if is_in_memory(url):
        # Each connection to ":memory:" would be a database of its own, so all threads share one connection.
        engine = create_engine(url, poolclass=StaticPool, connect_args=arguments)
    else:
        if (path := database_file(url)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, connect_args=arguments)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def is_in_memory(url: URL) -> bool:
    """Return whether the database is in memory."""
    return url.get_backend_name() == "sqlite" and (url.database or ":memory:") == ":memory:"


def database_file(url: URL) -> Path | None:
    """Return a SQLite database's file, else None."""
    # A `file:` URI carries options of SQLite and names no plain path.
    named = url.get_backend_name() == "sqlite" and not is_in_memory(url) and not str(url.database).startswith("file:")
    return Path(str(url.database)) if named else None


@contextmanager
def lock_schema(engine: Engine) -> Iterator[None]:
    """Lock the schema; set SQLite to write-ahead logging."""
    path = database_file(engine.url)
    if path is not None:
        with hold_lock(Path(f"{path}.lock")):
            with engine.connect() as connection:
                bare = connection.execution_options(**{BEGIN: ""})  # a journal's mode changes outside of a transaction
                # With a write-ahead log, readers go on while one process writes, and see the last commit.
                bare.exec_driver_sql("PRAGMA journal_mode=WAL")
            yield
    elif engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            # The lock ends with its transaction, also when the process dies.
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY})")
            yield
    else:
        yield


def insert_new(connection: Connection, table: Table) -> Insert:
    """Return an insert that leaves an existing row unchanged."""
    return _insert(connection, table).on_conflict_do_nothing()


def insert_or_replace(connection: Connection, table: Table, key: tuple[str, ...], changed: tuple[str, ...]) -> Insert:
    """Return an insert that updates `changed` columns by `key`."""
    statement = _insert(connection, table)
    # Both databases read `excluded` as the row that could not be inserted.
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in changed}
    )


def _insert(connection: Connection, table: Table) -> Insert:
    """Return the insert statement of the connection's database."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def _set_pragmas(connection: sqlite3.Connection, _: object) -> None:
    """Configure a new SQLite connection."""
    connection.isolation_level = None  # transactions begin in `_begin_immediate`, not where the driver guesses
    # With a write-ahead log, NORMAL keeps the file consistent after a power cut. A kill of the process loses no commit.
    connection.execute("PRAGMA synchronous=NORMAL")
    # SQLite checks foreign keys only where a connection asks for the check.
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_immediate(connection: Connection) -> None:
    """Begin a transaction with the configured statement."""
    if statement := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(statement)
