"""Where a command evaluates: in the resident pool if one runs, else in this process."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial

from warpsmith.base import PoolError, UsageError
from warpsmith.evaluation import EvaluationConfig, PreparedEvaluation, processes
from warpsmith.evaluation.processes import Grade, GradeFor
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.pool import PoolClient, find_pool
from warpsmith.records import Candidate, Record

LOG = logging.getLogger(__name__)
OFF = "off"  # the value of WARPSMITH_POOL with which no command uses the pool

FindPool = Callable[[Callable[[str], None]], PoolClient | None]


class PoolThenHere:
    """Evaluations in the pool while it answers, and afterwards in this process."""

    def __init__(self, pool: PoolClient, here: Callable[[], Grade]) -> None:
        self._pool: PoolClient | None = pool
        self._here = cache(here)  # made once the pool has ended

    def grade(
        self,
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        *,
        prepared: PreparedEvaluation | None = None,
    ) -> Record:
        """Return the candidate's record. An evaluation that the pool did not finish is begun again here."""
        if (pool := self._pool) is not None:
            try:
                return pool.grade(candidate, config, seed, prepared=prepared)
            except PoolError as error:
                self._pool = None
                LOG.warning("warning: %s The kernel is evaluated in this process.", error)
        return self._here()(candidate, config, seed, prepared=prepared)


def evaluate_kernel(candidate: Candidate, config: EvaluationConfig, pool: bool = True) -> Record:
    """Return the record of one candidate, evaluated in the pool if one runs and `pool` allows it."""
    with ExitStack() as until:
        return choose_evaluator(pool)(config, 1, until)(candidate, config)


def choose_evaluator(pool: bool, find: FindPool = find_pool) -> GradeFor:
    """Return the function that makes the evaluator of a command; `pool` allows the resident pool."""
    return partial(_grade_in_pool_or_here, find) if pool and not _is_off() else processes.judges_for


def _grade_in_pool_or_here(find: FindPool, config: EvaluationConfig, jobs: int, until: ExitStack) -> Grade:
    # A rehearsal tests the evaluator of the command's own process.
    pool = None if config.device == RehearsedMachine.kind else find(partial(LOG.warning, "warning: %s"))
    here = partial(processes.judges_for, config, jobs, until)
    return here() if pool is None else PoolThenHere(pool, here).grade


def _is_off() -> bool:
    """Return whether WARPSMITH_POOL forbids the pool."""
    value = os.environ.get("WARPSMITH_POOL", "")
    if value not in ("", OFF):
        raise UsageError(f"WARPSMITH_POOL is {value!r}: set it to {OFF}, or unset it to use the pool if one runs.")
    return value == OFF
