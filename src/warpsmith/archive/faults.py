"""Translation of database errors to ArchiveError."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from warpsmith.base import ArchiveError

ELSEWHERE = "WARPSMITH_HOME names another folder, WARPSMITH_ARCHIVE another database"
# Drivers share no error codes, so the texts of SQLite and PostgreSQL are matched. The first match counts.
WAYS_OUT = (
    (r"is locked", "another process kept it locked. Wait for that process or end it, then go on"),
    (
        r"disk is full|no space left",
        "its disk is full. Free some space, then go on; what was there before is kept",
    ),
    (
        r"disk i/o error",
        "the disk did not take it: full, past a limit of file size, or failing. See to that, then go on; what was "
        "there before is kept",
    ),
    (r"readonly database|read-only", f"it cannot be written. Give yourself the right to, or: {ELSEWHERE}"),
    (r"unable to open", f"its file cannot be opened or made. See to its folder, or: {ELSEWHERE}"),
    (
        r"not a database|malformed",
        f"it is damaged or no database. Move it away, or read it with sqlite3's .recover; or: {ELSEWHERE}",
    ),
    (r"could not connect|connection (failed|refused)|closed the connection", "its server does not answer. Start it"),
)


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Raise SQLAlchemy's errors as ArchiveError."""
    try:
        yield
    except NoSuchModuleError:
        raise
    except SQLAlchemyError as error:
        raise ArchiveError(error_message(url, str(getattr(error, "orig", None) or error))) from error


@contextmanager
def translate_opening_errors(url: URL) -> Iterator[None]:
    """Raise errors of opening as ArchiveError."""
    try:
        with translate_errors(url):
            yield
    # BlockingIOError is an OSError too: a held lock is no failure of opening, and the caller waits or reports the
    # holder.
    except BlockingIOError:
        raise
    except OSError as error:
        raise ArchiveError(error_message(url, f"unable to open {error.filename}: {error.strerror}")) from error


def error_message(url: URL, said: str) -> str:
    """Return a message with database, problem and remedy."""
    # A URL may hold a password, and the message may end up in a log.
    name = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    first = said.strip().splitlines()[0] if said.strip() else "nothing"
    found = (way for pattern, way in WAYS_OUT if re.search(pattern, said, re.IGNORECASE))
    return f"Archive {name}: {next(found, 'the database refused')} ({first})."
