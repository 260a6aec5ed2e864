"""Several judges at once on one GPU, rehearsed: forked processes, leases, and records that do not mix."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stage import SEARCH

from warpsmith.base import Home
from warpsmith.evaluation.processes import pool_of_judges
from warpsmith.evaluation.processes.judges import Judges
from warpsmith.machines.hardware import Need
from warpsmith.machines.rehearsed import REHEARSED_GPUS, RehearsedMachine
from warpsmith.records import Candidate, Direction, Verdict
from warpsmith.tasks.suite import suite_folder

HERE = Path(__file__).parent


@pytest.fixture
def judges() -> Iterator[Judges]:
    made = Judges(2)
    yield made
    made.close()


def seed(task: str, direction: Direction = Direction.FORWARD) -> Candidate:
    source = (suite_folder(task) / f"seed_{direction}.cu").read_text()
    return Candidate(task=task, direction=direction, source=source)


def attack(name: str) -> Candidate:
    return Candidate(
        task="max_pool", direction=Direction.FORWARD, source=(HERE.parent / "exploits" / f"{name}.cu").read_text()
    )


def test_each_candidate_has_its_own_verdict_whatever_its_neighbours_do(judges: Judges) -> None:
    asked = {
        "softmax": (seed("softmax"), Verdict.PASS),
        "closes its line": (attack("63_closed_and_alive"), Verdict.FAIL),
        "back": (seed("layernorm", Direction.BACKWARD), Verdict.PASS),
        "leaves": (attack("45_early_exit"), Verdict.FAIL),
        "linear": (seed("linear"), Verdict.PASS),
    }
    with ThreadPoolExecutor(len(asked)) as threads:
        begun = {name: threads.submit(judges.grade, one, SEARCH) for name, (one, _) in asked.items()}
        found = {name: future.result() for name, future in begun.items()}
    assert {name: one.concluded for name, one in found.items()} == {name: due for name, (_, due) in asked.items()}
    assert {one.candidate.id for one in found.values()} == {one.id for one, _ in asked.values()}
    timed = [one.timing for one in found.values() if one.concluded is Verdict.PASS]
    assert all(timing is not None and timing.cases for timing in timed)


def test_two_gpus_are_both_used_and_leased_by_their_uuids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REHEARSED_GPUS, "2")
    both = RehearsedMachine.all()
    with both[0].lease(Need.ALONE), both[1].lease(Need.ALONE):
        pass  # with one lease for both, the second would wait for the first
    with pool_of_judges(SEARCH, 2) as (threads, grade):
        begun = [threads.submit(grade, seed(task), SEARCH) for task in ("softmax", "linear")]
        records = [one.result() for one in begun]
    assert [one.concluded for one in records] == [Verdict.PASS, Verdict.PASS]
    assert {one.environment.uuid for one in records} == {machine.uuid for machine in both}
    assert len({one.environment.hardware for one in records}) == 1, "cards of one model have comparable times"
    leases = {path.name for path in (Home.locate().data / "leases").iterdir()}
    assert {f"{machine.uuid}.lock" for machine in both} <= leases
