"""Executors of evaluation requests, by protocol and by threads."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol
from uuid import uuid4

from warpsmith.evaluation import EvaluationConfig, PreparedEvaluation
from warpsmith.evaluation.processes import Grade, pool_of_judges
from warpsmith.machines.virtual import gpu_identity
from warpsmith.records import Candidate, Model, Record
from warpsmith.tasks.formats import TaskFormat, find


class EvaluationRequest(Model):
    """One candidate to evaluate; equal ids name equal work."""

    id: str
    candidate: Candidate  # its task is absolute, so that a process in another folder opens the same files
    config: EvaluationConfig
    seed: int | None = None
    prepared: PreparedEvaluation | None = None  # the first stages of this evaluation, if they have run

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        key: str = "",
        prepared: PreparedEvaluation | None = None,
    ) -> "EvaluationRequest":
        """Return a request with the caller's idempotency key, or with a new random id."""
        absolute = candidate.model_copy(update={"task": absolute_task(candidate.task)})
        found = prepared and prepared.model_copy(
            update={"target": absolute_task(prepared.target), "config": absolute_gpu(prepared.config)}
        )
        return cls(id=key or uuid4().hex, candidate=absolute, config=absolute_gpu(config), seed=seed, prepared=found)


class Executor(Protocol):
    """A place where evaluations run: threads here, the resident pool, or a cluster."""

    async def submit(self, request: EvaluationRequest) -> Record:
        """Return a request's record. Cancelling the call ends the evaluation."""
        ...


class ThreadExecutor:
    """Requests evaluated by threads of this process, each by one call of a grading function."""

    def __init__(self, threads: ThreadPoolExecutor, grade: Grade) -> None:
        self._threads, self._grade = threads, grade

    async def submit(self, request: EvaluationRequest) -> Record:
        """Return the record of a request."""
        return await asyncio.wrap_future(self._threads.submit(self._evaluate, request))

    def _evaluate(self, request: EvaluationRequest) -> Record:
        return self._grade(request.candidate, request.config, request.seed, prepared=request.prepared)


@contextmanager
def local_executor(config: EvaluationConfig, jobs: int) -> Iterator[ThreadExecutor]:
    """Yield an executor that runs `jobs` evaluations at a time on this machine."""
    with pool_of_judges(config, jobs) as (threads, grade):
        yield ThreadExecutor(threads, grade)


def absolute_gpu(config: EvaluationConfig) -> EvaluationConfig:
    """Return options whose description of a GPU is the same file in every folder."""
    gpu = gpu_identity(config.gpu)
    return config if gpu == config.gpu else config.replace(gpu=gpu)


def absolute_task(target: str) -> str:
    """Return a target that holds in every folder."""
    found = find(target)
    if found.form is TaskFormat.SUITE:
        # A suite task is found by its name from everywhere; only tasks in files need an absolute path.
        return found.label
    return replace(found, path=found.path.absolute()).label
