"""One writer a run: a lock that the kernel, or the database's server, frees when its holder dies. Knows no search.

A SQLite archive has a file a run in a folder beside it, so that whoever opens that archive meets the same lock. In
PostgreSQL it is the session's: the server drops it with the connection, whichever machine that came from.
"""

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

from warpsmith.archive.faults import opening, translated
from warpsmith.base import digest, is_locked, locked
from warpsmith.records import Model

PATIENCE_S = 1.0  # a reader that looks holds it for an instant, and who was killed takes a moment to be gone
MINE = text("SELECT pg_try_advisory_lock(:key)")
RELEASE = text("SELECT pg_advisory_unlock(:key)")
ANYBODYS = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (classid::bigint << 32) + objid::bigint = :key"
)


class Holder(Model):
    """The process that writes a run."""

    what: str  # the command
    pid: int = Field(default_factory=os.getpid)
    host: str = Field(default_factory=socket.gethostname)
    since: datetime = Field(default_factory=lambda: datetime.now(UTC))


def refusal(run: str, holder: Holder | None) -> str:
    """What whoever wants a run is told: who holds it, and the way out."""
    if holder is None:
        return f"Run {run} is held by another process. Wait until that has ended."
    there = "" if holder.host == socket.gethostname() else " there"
    return (
        f"Run {run} is held by {holder.what}, process {holder.pid} on {holder.host}, since "
        f"{holder.since:%Y-%m-%d %H:%M:%S} UTC. Wait until it has ended, or end it with `kill {holder.pid}`{there}: "
        f"what it has finished is kept. `warpsmith show {run}` reads meanwhile."
    )


@contextmanager
def held(engine: Engine, run: str) -> Iterator[None]:
    """The run held alone; BlockingIOError where somebody else holds it. A database in memory is held already."""
    if engine.dialect.name == "postgresql":
        with _session(engine, run):
            yield
    elif (path := _path(engine, run)) is not None:
        with ExitStack() as until:
            with opening(engine.url):
                until.enter_context(locked(path, patience_s=PATIENCE_S))
            yield
    else:
        yield


def is_held(engine: Engine, run: str) -> bool:
    """Whether a process holds the run; keeps nobody from it."""
    if engine.dialect.name == "postgresql":
        with translated(engine.url), engine.connect() as connection:
            return bool(connection.execute(ANYBODYS, {"key": _key(run)}).scalar_one())
    path = _path(engine, run)
    return path is not None and is_locked(path)


@contextmanager
def _session(engine: Engine, run: str) -> Iterator[None]:
    """A connection of its own, which is closed and not given back: the lock ends with it."""
    with translated(engine.url):
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
    try:
        with translated(engine.url):
            _take(connection, _key(run))
        yield
    finally:
        # Closing alone would free the lock as well, but only when the server notices, which is after this returns.
        with suppress(SQLAlchemyError):
            connection.execute(RELEASE, {"key": _key(run)})
        connection.close()


def _take(connection: Connection, key: int, pause_s: float = 0.05) -> None:
    end = time.monotonic() + PATIENCE_S
    while not connection.execute(MINE, {"key": key}).scalar_one():
        if time.monotonic() >= end:
            raise BlockingIOError
        time.sleep(pause_s)


def _key(run: str) -> int:
    """The run as a number of PostgreSQL's: 63 bits, so that it is positive."""
    return int(digest("run", run), 16) % 2**63


def _path(engine: Engine, run: str) -> Path | None:
    """The file of a run's lock, beside the archive as the database itself found it; None for one in memory."""
    with translated(engine.url), engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA database_list").first()
    if found is None or not found[2]:
        return None
    database = Path(found[2]).resolve()
    return database.with_name(f"{database.name}.runs") / f"{run}.lock"
