"""The lock of a run's only writer, released when its process dies."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from warpsmith.archive.faults import translate_errors, translate_opening_errors
from warpsmith.base import digest, hold_lock, is_locked
from warpsmith.records import Model

PATIENCE_S = 1.0  # a reader that looks holds it for an instant, and who was killed takes a moment to be gone
MINE = text("SELECT pg_try_advisory_lock(:key)")
RELEASE = text("SELECT pg_advisory_unlock(:key)")
ANYBODYS = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (classid::bigint << 32) + objid::bigint = :key"
)


# Only information for a message. The lock decides: a row would outlive a killed process.
class Holder(Model):
    """The process that writes a run, as messages name it."""

    what: str  # the command
    pid: int = Field(default_factory=os.getpid)
    host: str = Field(default_factory=socket.gethostname)
    since: datetime = Field(default_factory=lambda: datetime.now(UTC))


def refusal_message(run: str, holder: Holder | None) -> str:
    """Return the message about a held run."""
    if holder is None:
        return f"Run {run} is held by another process. Wait until that has ended."
    there = "" if holder.host == socket.gethostname() else " there"
    return (
        f"Run {run} is held by {holder.what}, process {holder.pid} on {holder.host}, since "
        f"{holder.since:%Y-%m-%d %H:%M:%S} UTC. Wait until it has ended, or end it with `kill {holder.pid}`{there}: "
        f"what it has finished is kept. `warpsmith show {run}` reads meanwhile."
    )


@contextmanager
def hold_run(engine: Engine, run: str) -> Iterator[None]:
    """Hold a run exclusively. Raise BlockingIOError if another process holds it.

    A database in memory belongs to one process and needs no lock.
    """
    if engine.dialect.name == "postgresql":
        with _own_connection(engine, run):
            yield
    elif (path := _lock_path(engine, run)) is not None:
        # The lock is entered inside of the translation, and the body runs outside: errors of the caller keep their
        # type.
        with ExitStack() as until:
            with translate_opening_errors(engine.url):
                until.enter_context(hold_lock(path, patience_s=PATIENCE_S))
            yield
    else:
        yield


def is_held(engine: Engine, run: str) -> bool:
    """Return whether a process holds the run."""
    if engine.dialect.name == "postgresql":
        with translate_errors(engine.url), engine.connect() as connection:
            return bool(connection.execute(ANYBODYS, {"key": _lock_key(run)}).scalar_one())
    path = _lock_path(engine, run)
    return path is not None and is_locked(path)


@contextmanager
def _own_connection(engine: Engine, run: str) -> Iterator[None]:
    """Open an unpooled connection, which ends the lock."""
    with translate_errors(engine.url):
        # An advisory lock belongs to the session. AUTOCOMMIT keeps no transaction open for the days that a run may
        # take.
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
    try:
        with translate_errors(engine.url):
            _acquire_lock(connection, _lock_key(run))
        yield
    finally:
        # Closing alone would free the lock as well, but only when the server notices, which is after this returns.
        with suppress(SQLAlchemyError):
            connection.execute(RELEASE, {"key": _lock_key(run)})
        connection.close()


def _acquire_lock(connection: Connection, key: int, pause_s: float = 0.05) -> None:
    """Take an advisory lock. Raise BlockingIOError after the patience."""
    end = time.monotonic() + PATIENCE_S
    while not connection.execute(MINE, {"key": key}).scalar_one():
        if time.monotonic() >= end:
            raise BlockingIOError
        time.sleep(pause_s)


def _lock_key(run: str) -> int:
    """Return a run's 63-bit key for advisory locks."""
    # PostgreSQL takes a signed 64-bit key; 63 bits keep it positive, as ANYBODYS computes it from two halves.
    return int(digest("run", run), 16) % 2**63


def _lock_path(engine: Engine, run: str) -> Path | None:
    """Return the lock file; None for memory."""
    # SQLite is asked for its file: a `file:` URI, a relative path and a link lead to the same lock.
    with translate_errors(engine.url), engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA database_list").first()
    if found is None or not found[2]:
        return None
    database = Path(found[2]).resolve()
    return database.with_name(f"{database.name}.runs") / f"{run}.lock"
