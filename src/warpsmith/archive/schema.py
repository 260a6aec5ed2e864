"""The archive's version and its migrations."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, delete, func, insert, inspect, select

from warpsmith.archive.dialect import WRITES, lock_schema
from warpsmith.archive.rows import score_row
from warpsmith.archive.tables import METADATA, records, scores, versions
from warpsmith.base import ArchiveError
from warpsmith.records import Record

PAGE = 200


@dataclass(frozen=True)
class Migration:
    """An unchangeable step from `version - 1` to `version`."""

    version: int
    summary: str
    run: Callable[[Connection], None]


def rebuild_scores(connection: Connection) -> None:
    """Rebuild table `scores` from the records."""
    scores.create(connection, checkfirst=True)
    # Scores are derived data: deleting all rows loses nothing.
    connection.execute(delete(scores))
    # Pages by id hold 200 bodies in memory at a time; an offset would read all earlier rows again for each page.
    last = 0
    while True:
        page = select(records.c.id, records.c.body).where(records.c.id > last).order_by(records.c.id).limit(PAGE)
        found = connection.execute(page).all()
        if not found:
            return
        last = found[-1].id
        rows = [row for each in found if (row := score_row(each.id, Record.parse(each.body)))]
        if rows:
            connection.execute(insert(scores), rows)


def drop_parents(connection: Connection) -> None:
    """Drop table `parents`, which repeats record bodies."""
    connection.exec_driver_sql("DROP TABLE parents")


# Append only. Archives of every released version are opened by running the steps that they lack.
STEPS = (
    Migration(2, "the index of scores", rebuild_scores),
    Migration(3, "no table of parents", drop_parents),
)
LATEST = STEPS[-1].version


def migrate(engine: Engine) -> None:
    """Create the tables, or run the missing migrations."""
    # The usual case takes no lock, so readers never wait for each other when they open an archive.
    if _read_version(engine) == LATEST:
        return
    with lock_schema(engine):
        # Another process may have migrated while this one waited for the lock.
        found = _read_version(engine)
        if found is None:
            with _open_writer(engine) as connection, connection.begin():
                METADATA.create_all(connection)
                _write_version(connection, LATEST)
            return
        if found > LATEST:
            raise ArchiveError(
                f"Archive {engine.url.database} has version {found}; this warpsmith knows up to {LATEST}. Use a newer "
                "warpsmith, or name another archive with WARPSMITH_ARCHIVE."
            )
        # A step commits together with its version: a kill leaves an archive of an older version, never a mixed one.
        for step in STEPS:
            if step.version > found:
                with _open_writer(engine) as connection, connection.begin():
                    step.run(connection)
                    _write_version(connection, step.version)


def _read_version(engine: Engine) -> int | None:
    """Return an archive's version, or None if it is empty."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(versions.name):
            return None
        return connection.execute(select(func.max(versions.c.version))).scalar()


def _write_version(connection: Connection, version: int) -> None:
    """Add a row with the version."""
    connection.execute(insert(versions), {"version": version, "applied_s": time.time()})


def _open_writer(engine: Engine) -> Connection:
    """Return a connection whose transactions write."""
    return engine.connect().execution_options(**WRITES)
