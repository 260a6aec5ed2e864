"""Records as an evaluation would make them, and empty databases: a SQLite file and a real PostgreSQL server's."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import URL, Engine, create_engine, make_url, text

from warpsmith.archive import Archive, Run
from warpsmith.records import Direction, Group, Reason, Record
from warpsmith.records.fake import fake_candidate, fake_case, fake_timing, timed_record

Make = Callable[..., Record]
NewUrl = Callable[[], str]
SERVER = "WARPSMITH_TEST_DATABASE"  # the URL of a server's database; scripts/postgres.sh sets it
REQUIRED = "WARPSMITH_TEST_POSTGRES"  # continuous integration: a test without a server fails
NO_SERVER = (
    f"needs a PostgreSQL server: apt-get install postgresql, pip install 'warpsmith[postgres]', then "
    f"scripts/postgres.sh run pytest tests/archive; or name one with {SERVER}"
)


def make(
    source: str = "kernel",
    us: float | None = 10.0,
    *,
    kind: Literal["modelled", "measured"] = "modelled",
    cases: int = 2,
    fails: Reason | None = None,
    parents: tuple[str, ...] = (),
    seed: int = 0,
    task: str = "softmax",
) -> Record:
    """A record that passed in `us`, or one that failed at the check; torch takes 100 µs where it is measured."""
    measured = kind == "measured"
    timings = [
        fake_timing(us, 100 / us if measured else None, fake_case(f"case-{place}", Group.SMOKE, 8 + place))
        for place in range(cases if us is not None else 0)
    ]
    hardware = "cuda:H200" if measured else "vgpu:H200"
    return timed_record(fake_candidate(source, parents, task=task), *timings, fails=fails, hardware=hardware, seed=seed)


@pytest.fixture(name="make")
def _make() -> Make:
    return make


class Databases:
    """The databases of this process of tests on one server: made once, emptied for each test."""

    def __init__(self, server: URL) -> None:
        self._server = server
        self._urls: list[URL] = []

    def empty(self, place: int) -> str:
        """Return the URL of a database without tables and without other connections."""
        if place == len(self._urls):
            self._urls.append(self._server.set(database=f"warpsmith_{os.getpid()}_{place}"))
            self._on_server(f"CREATE DATABASE {self._urls[place].database} TEMPLATE template0")
        url = self._urls[place]
        others = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{url.database}'"
        self._on_server(others)
        run_sql(url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return url.render_as_string(hide_password=False)

    def drop(self) -> None:
        """Remove the databases from the server."""
        for url in self._urls:
            self._on_server(f"DROP DATABASE {url.database} WITH (FORCE)")

    def _on_server(self, statement: str) -> None:
        run_sql(self._server, statement)


def run_sql(url: URL, statement: str) -> None:
    """Run statements outside of a transaction."""
    engine: Engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """Databases of a real server; without one the test is skipped, and fails in continuous integration."""
    url = os.environ.get(SERVER)
    if not url:
        pytest.fail(NO_SERVER) if os.environ.get(REQUIRED) else pytest.skip(NO_SERVER)
    databases = Databases(make_url(url))
    yield databases
    databases.drop()


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    """The database that a test runs on; each runs on both."""
    return str(request.param)


@pytest.fixture
def new_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> NewUrl:
    """Return the URLs of databases that hold nothing, another with each call."""
    if backend == "sqlite":
        names = iter(range(99))
        return lambda: f"sqlite:///{tmp_path / f'archive-{next(names)}.sqlite'}"
    databases: Databases = request.getfixturevalue("postgres")
    places = iter(range(99))
    return lambda: databases.empty(next(places))


@pytest.fixture
def run() -> Run:
    return Run(name="first", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu")


@pytest.fixture
def url(new_url: NewUrl, run: Run) -> str:
    """An archive that processes share, with one run."""
    found = new_url()
    with Archive.open(found) as archive:
        archive.start(run)
    return found


@pytest.fixture
def archive(backend: str, request: pytest.FixtureRequest, run: Run) -> Iterator[Archive]:
    """One with one run: in memory, and on a server."""
    with Archive.open("sqlite://" if backend == "sqlite" else request.getfixturevalue("new_url")()) as opened:
        opened.start(run)
        yield opened
