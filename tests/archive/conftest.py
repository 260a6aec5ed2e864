"""Records as an evaluation would make them, without one."""

import os
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from sqlalchemy import create_engine

from warpsmith.archive import Archive, Run
from warpsmith.archive.tables import METADATA
from warpsmith.records import (
    Candidate,
    Case,
    CaseTiming,
    Direction,
    Dtype,
    Environment,
    Group,
    MeasuredTime,
    ModelledTime,
    Options,
    Ratio,
    Reason,
    Record,
    StageResult,
    TimingFacts,
    Verdict,
)

Make = Callable[..., Record]
PASSED = (StageResult(stage="compile", verdict=Verdict.PASS), StageResult(stage="check", verdict=Verdict.PASS))


def timing(us: float, kind: Literal["modelled", "measured"], cases: int) -> StageResult:
    """Times of `cases` cases; a measured one is held against a baseline of 100 µs."""
    time = ModelledTime(us=us, gpu="H200")
    if kind == "measured":
        time = MeasuredTime(us=us, low_us=us * 0.9, high_us=us * 1.1, samples=50)
    ratio = Ratio(value=100 / us, low=90 / us, high=110 / us) if kind == "measured" else None
    found = tuple(
        CaseTiming(
            case=Case(name=f"case-{place}", group=Group.SMOKE, axes={"n": 8 + place}, dtype=Dtype.FLOAT32),
            time=time,
            speedup=ratio,
        )
        for place in range(cases)
    )
    tier: Literal["modelled", "search"] = "modelled" if kind == "modelled" else "search"
    return StageResult(stage="timing", verdict=Verdict.PASS, facts=TimingFacts(tier=tier, cases=found))


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
    """A record that passed in `us`, or one that failed at the check."""
    results = PASSED if us is None else (*PASSED, timing(us, kind, cases))
    if fails is not None:
        results = (PASSED[0], StageResult(stage="check", verdict=Verdict.FAIL, reason=fails, detail="wrong"))
    return Record(
        candidate=Candidate(task=task, direction=Direction.FORWARD, source=source, parents=parents),
        task_version="1",
        environment=Environment(device="virtual H200", hardware="vgpu:H200" if kind == "modelled" else "cuda:H200"),
        options=Options(device="vgpu", seeds=(seed,)),
        results=results,
    )


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
