"""Records as an evaluation would make them, without one."""

import os
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from sqlalchemy import create_engine

from warpsmith.archive import Archive, Run
from warpsmith.archive.tables import METADATA
from warpsmith.records import Direction, Group, Reason, Record
from warpsmith.records.fake import fake_candidate, fake_case, fake_timing, timed_record

Make = Callable[..., Record]


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


@pytest.fixture
def run() -> Run:
    return Run(name="first", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu")


@pytest.fixture
def archive(run: Run) -> Iterator[Archive]:
    """One with one run, in memory; where WARPSMITH_TEST_DATABASE names a database, there, and it is emptied."""
    url = os.environ.get("WARPSMITH_TEST_DATABASE", "sqlite://")
    if url != "sqlite://":
        engine = create_engine(url)
        METADATA.drop_all(engine)
        engine.dispose()
    with Archive.open(url) as opened:
        opened.start(run)
        yield opened
