"""Which executor a command uses: the resident pool, or its own process."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from warpsmith.app.evaluators import PoolThenHere, choose_evaluator
from warpsmith.base import PoolError, UsageError
from warpsmith.evaluation import EvaluationConfig, processes
from warpsmith.pool import PoolClient
from warpsmith.records import Candidate, Record

CONFIG = EvaluationConfig(device="vgpu")
CANDIDATE = Candidate.from_fields(task="softmax", direction="forward", source="x", language="torch", macros={})
RECORD = Record.model_construct(candidate=CANDIDATE)


class Pool(PoolClient):
    """A pool that answers some requests and then has ended."""

    def __init__(self, answers: int) -> None:
        super().__init__(Path("pool.sock"))
        self.answers, self.asked = answers, 0

    def grade(self, candidate: Candidate, config: EvaluationConfig, seed: int | None = None, **_: Any) -> Record:
        self.asked += 1
        if self.asked > self.answers:
            raise PoolError("The pool ended during an evaluation: end of file.")
        return RECORD


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the pool, which the tests of other packages never use."""
    monkeypatch.delenv("WARPSMITH_POOL")


def test_a_pool_that_runs_evaluates() -> None:
    pool = Pool(answers=1)
    with ExitStack() as until:
        grade = choose_evaluator(True, find=lambda warn: pool)(CONFIG, 1, until)
        assert grade(CANDIDATE, CONFIG) is RECORD
    assert pool.asked == 1


def test_without_a_pool_the_process_evaluates() -> None:
    with ExitStack() as until:
        assert choose_evaluator(True, find=lambda warn: None)(CONFIG, 1, until) is processes.judges_for(
            CONFIG, 1, until
        )


def test_a_rehearsed_gpu_is_evaluated_in_this_process() -> None:
    def find(warn: Callable[[str], None]) -> PoolClient:
        raise AssertionError("no pool is looked for")

    with ExitStack() as until:
        choose_evaluator(True, find)(EvaluationConfig(device="rehearsed"), 1, until)


def test_the_pool_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_evaluator(False) is processes.judges_for
    monkeypatch.setenv("WARPSMITH_POOL", "off")
    assert choose_evaluator(True) is processes.judges_for
    monkeypatch.setenv("WARPSMITH_POOL", "maybe")
    with pytest.raises(UsageError, match="'maybe': set it to off"):
        choose_evaluator(True)


def test_evaluations_go_on_here_after_the_pool_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    pool, here, made = Pool(answers=1), RECORD.model_copy(), list[int]()

    def grade(candidate: Candidate, config: EvaluationConfig, seed: int | None = None, **_: Any) -> Record:
        return here

    def make() -> processes.Grade:
        made.append(1)
        return grade

    both = PoolThenHere(pool, make)
    assert both.grade(CANDIDATE, CONFIG) is RECORD and not made
    with caplog.at_level(logging.WARNING):
        assert both.grade(CANDIDATE, CONFIG) is here and both.grade(CANDIDATE, CONFIG) is here
    assert (pool.asked, len(made), len(caplog.records)) == (2, 1, 1)
    assert caplog.records[0].getMessage() == (
        "warning: The pool ended during an evaluation: end of file. The kernel is evaluated in this process."
    )


def test_a_pool_that_refuses_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def find(warn: Callable[[str], None]) -> None:
        warn("The pool is not used: it runs another version of warpsmith.")

    with caplog.at_level(logging.WARNING), ExitStack() as until:
        choose_evaluator(True, find)(CONFIG, 1, until)
    assert [one.getMessage() for one in caplog.records] == [
        "warning: The pool is not used: it runs another version of warpsmith."
    ]
