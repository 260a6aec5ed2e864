"""What a database can refuse, as a message that says what and the way out; and the archive goes on afterwards."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from warpsmith.archive import Archive, Run
from warpsmith.archive.faults import error_message, translate_errors
from warpsmith.base import ArchiveError, MachineError, UsageError
from warpsmith.records import Record

Make = Callable[..., Record]


@pytest.fixture
def path(tmp_path: Path, run: Run) -> Path:
    found = tmp_path / "a.sqlite"
    with Archive.open(f"sqlite:///{found}") as archive:
        archive.start(run)
    return found


def test_a_locked_database_is_waited_for_then_said(path: Path, make: Make) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Archive.open(f"sqlite:///{path}", wait_s=0.2) as archive:
        assert archive.count() == 0  # reading is not kept up by a writer
        with pytest.raises(ArchiveError, match=r"a\.sqlite: another process kept it locked\. Wait"):
            archive.add("first", make())
        holder.execute("ROLLBACK")
        holder.close()
        archive.add("first", make())
        assert archive.count("first") == 1


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'small.sqlite'}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=4")
        connection.exec_driver_sql("CREATE TABLE t (x)")
        with pytest.raises(ArchiveError, match=r"its disk is full\. Free some space"), translate_errors(engine.url):
            connection.exec_driver_sql("INSERT INTO t VALUES (zeroblob(100000))")
    engine.dispose()


def test_an_archive_that_cannot_be_written_can_be_read(path: Path, make: Make) -> None:
    with Archive.open(f"sqlite:///file:{path}?mode=ro&uri=true") as archive:
        assert archive.run("first").name == "first"
        with pytest.raises(ArchiveError, match="cannot be written"):
            archive.add("first", make())


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file" / "a.sqlite", Path("/proc/nowhere/a.sqlite"), tmp_path):
        with pytest.raises(ArchiveError, match=r"cannot be opened or made.*WARPSMITH_HOME"):
            Archive.open(f"sqlite:///{bad}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_text("this is a letter, and it is long enough to be read as a header\n" * 10)
    before = path.read_bytes()
    with pytest.raises(ArchiveError, match="damaged or no database"):
        Archive.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_newer_archive_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO schema_version VALUES (99, 0)")
    raw.close()
    with pytest.raises(ArchiveError, match="version 99; this warpsmith knows up to"):
        Archive.open(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["not a url", "nosuchdatabase://x/y"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no database URL"):
        Archive.open(url)


def test_a_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="needs Python's pymysql: pip install pymysql"):
        Archive.open("mysql+pymysql://user:secret@host/db")


def test_a_message_never_holds_a_password() -> None:
    said = error_message(make_url("postgresql://user:secret@host/db"), "connection refused")
    assert "secret" not in said and "its server does not answer" in said
    assert issubclass(ArchiveError, MachineError) and ArchiveError("x").exit_code == 3


def test_what_a_caller_raises_inside_stays_what_it_is(archive: Archive) -> None:
    with pytest.raises(FileNotFoundError), archive.transaction():
        Path("/nowhere/at/all").read_text()
