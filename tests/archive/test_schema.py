"""Migration of older archives, and queries of ten thousand records."""

import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect
from tests.archive.conftest import NewUrl, run_sql

from warpsmith.archive import Archive, Run, schema
from warpsmith.archive.tables import METADATA
from warpsmith.records import Record, score

Make = Callable[..., Record]
FOLDER = Path(__file__).parent


def restore(url: str, version: int) -> str:
    """Fill an empty database with the archive of an older version."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        with closing(sqlite3.connect(str(engine.url.database))) as raw:
            raw.executescript((FOLDER / f"v{version}.sql").read_text())
    else:
        run_sql(engine.url, (FOLDER / f"v{version}.postgresql.sql").read_text().replace(":", "\\:"))
    engine.dispose()
    return url


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest, new_url: NewUrl) -> str:
    """An archive of an older version: 1 has no index of scores, 2 has a table of parents."""
    return restore(new_url(), request.param)


def test_an_older_archive_is_migrated_with_all_its_rows(old: str) -> None:
    with Archive.open(old) as archive:
        assert archive.run("old").settings == {"generations": "3"}
        entries = list(archive.records("old"))
        assert [entry.record.candidate.source for entry in entries] == ["seed", "faster", "wrong", "timed"]
        assert all(entry.score == score(entry.record) for entry in entries)
        assert [ranking.kind for ranking in archive.rankings("old")] == ["measured", "modelled"]
        assert [note.body for note in archive.notes("old", "lesson")] == ["wide loads help"]
        assert archive.spent("old")[0].usd == 0.25
    with Archive.open(old) as again:
        assert again.count("old") == 4


def test_the_lineage_of_an_older_archive_stays(old: str) -> None:
    with Archive.open(old) as archive:
        child = archive.lineage(list(archive.records("old"))[1].candidate)
        assert [entry.record.candidate.source for entry in child] == ["seed", "faster"]


def test_a_migrated_archive_has_the_tables_of_a_new_one(old: str, tmp_path: Path) -> None:
    def columns(url: str) -> dict[str, set[str]]:
        with Archive.open(url) as archive, archive._store.read_transaction() as connection:
            look = inspect(connection)
            return {name: {column["name"] for column in look.get_columns(name)} for name in look.get_table_names()}

    assert columns(old) == columns(f"sqlite:///{tmp_path / 'new.sqlite'}")
    assert set(columns(old)) == set(METADATA.tables)


def test_a_step_that_breaks_off_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = restore(f"sqlite:///{tmp_path / 'old.sqlite'}", 1)

    def breaks(connection: Connection) -> None:
        schema.rebuild_scores(connection)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (schema.Migration(2, "breaks", breaks),))
        with pytest.raises(RuntimeError, match="killed"):
            Archive.open(old)
    raw = sqlite3.connect(old.removeprefix("sqlite:///"))
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert raw.execute("SELECT max(version) FROM schema_version").fetchone() == (1,) and "scores" not in tables
    raw.close()
    with Archive.open(old) as archive:
        assert archive.best("old") is not None


def test_versions_go_up_by_one() -> None:
    assert [step.version for step in schema.STEPS] == list(range(2, schema.LATEST + 1))


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_records_are_asked_for_a_few(count: int, tmp_path: Path, run: Run, make: Make) -> None:
    text = "// some kilobytes of kernel text\n" * 300
    with Archive.open(f"sqlite:///{tmp_path / 'a.sqlite'}") as archive:
        archive.start(run)
        for start in range(0, count, 100):
            with archive.transaction():
                for place in range(start, start + 100):
                    archive.add("first", make(f"{text}{place}", 10.0 + place % 97))
        tracemalloc.start()
        assert archive.best("first") is not None
        assert len(archive.elites("first", limit=20)) == 20
        assert archive.outcomes("first")[0].count == archive.count("first") == count
        assert sum(len(entry.body) for entry in archive.records("first")) > count * len(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16e6, f"{peak / 1e6:.1f} MB for {count} records"  # a page, whatever the count
