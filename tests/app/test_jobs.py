"""Functions of the application layer as jobs: awaited, watched, cancelled."""

import asyncio
import threading
from pathlib import Path

import pytest

import warpsmith
from warpsmith import app
from warpsmith.app import Job, JobCancelled, Watch
from warpsmith.base import UsageError


def count_to(last: int, *, watch: Watch) -> int:
    for number in range(1, last + 1):
        watch(number)
    return last


def test_a_job_has_a_result_and_its_events_in_order() -> None:
    async def follow() -> tuple[list[int], int]:
        job = app.start(count_to, 3)
        return [event async for event in job.events()], await job

    assert asyncio.run(follow()) == ([1, 2, 3], 3)


def test_an_error_is_raised_where_the_job_is_awaited() -> None:
    def fail(*, watch: Watch) -> None:
        raise UsageError("no such task")

    async def follow() -> None:
        await app.start(fail)

    with pytest.raises(UsageError, match="no such task"):
        asyncio.run(follow())


def test_a_cancelled_job_ends_at_its_next_event_and_saves_its_state() -> None:
    is_started, is_cancelled, ends = threading.Event(), threading.Event(), list[str]()

    def work(*, watch: Watch) -> None:
        is_started.set()
        is_cancelled.wait()
        try:
            watch("an event")
        except JobCancelled:
            ends.append("saved")
            raise

    async def follow() -> None:
        job: Job[None] = app.start(work)
        await asyncio.to_thread(is_started.wait)
        job.cancel()
        is_cancelled.set()
        await job

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(follow())
    assert ends == ["saved"]


def test_the_python_api_is_the_application_layer() -> None:
    assert warpsmith.evaluate is app.evaluate
    assert warpsmith.optimize is app.optimize


def test_a_batch_without_a_file_gives_each_line_to_the_watcher(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"task": "softmax"}\nnot JSON\n')
    lines: list[str] = []
    found = app.evaluate_many(
        app.BatchRequest(tmp_path / "b.jsonl", app.EvaluationConfig(device="vgpu")),
        lambda event: lines.append(event.line),
    )
    assert (found.lines, found.unusable) == (2, 2) and len([line for line in lines if line]) == 2
