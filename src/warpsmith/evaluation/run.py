"""From a candidate to its record: the stages of a device, one after the other, until one objects."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from warpsmith.base import HarnessError, UsageError
from warpsmith.evaluation.choices import Choices, settled
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.table import STAGES, Row
from warpsmith.languages.nvcc.source import language_of
from warpsmith.machines.hardware.lease import Need, lease
from warpsmith.machines.virtual import describe
from warpsmith.records import Candidate, Direction, Language, Model, Reason, Record, StageResult, Verdict
from warpsmith.tasks.host.find import open_task
from warpsmith.tasks.host.opened import OpenOptions

SEED_BITS = 62


def evaluate(
    task: str,
    source: str,
    direction: Direction | str = Direction.FORWARD,
    language: Language | None = None,
    macros: Mapping[str, str] | None = None,
    choices: Choices | None = None,
) -> Record:
    """The record of one kernel text for one direction of a task."""
    candidate = Candidate(
        task=task,
        direction=Direction(direction),
        source=source,
        language=language or language_of(source),
        macros=macros or {},
    )
    return grade(candidate, choices or Choices())


def grade(candidate: Candidate, choices: Choices, seed: int | None = None) -> Record:
    """The record of one candidate; `candidate.task` is opened as a user would. A secret seed is drawn unless given."""
    with _opened(candidate, choices, seed) as (desk, record):
        return run(record, desk, rows_for(desk.choices))


class Begun(Model):
    """An evaluation up to its artifact, for another process that goes on with it."""

    target: str
    choices: Choices
    seed: int
    record: Record
    artifact: str

    @property
    def left(self) -> tuple[Row, ...]:
        """The stages that are still to come: none where one has objected."""
        return () if self.record.ended else rows_for(self.choices)[len(self.record.results) :]

    def failed(self, error: Exception) -> Record:
        """The record where nobody could go on, by no fault of the candidate's."""
        return self.record.adding(_fault(self.left[0].name, error, time.perf_counter()))


def begin(candidate: Candidate, choices: Choices, seed: int | None = None) -> Begun:
    """The stages that need neither torch nor a GPU."""
    with _opened(candidate, choices, seed) as (desk, record):
        done = run(record, desk, [row for row in rows_for(desk.choices) if row.early])
        artifact = str(desk.artifact or "")
        return Begun(target=desk.target, choices=desk.choices, seed=desk.seed, record=done, artifact=artifact)


def go_on(begun: Begun) -> Record:
    """All that is left."""
    with open_task(begun.target, OpenOptions(trust=begun.choices.trust)) as opened:
        task, named = opened.describe(), begun.record.candidate
        if task.version != begun.record.task_version:
            raise HarnessError(f"Task {task.name} was changed while a kernel for it was compiled.")
        artifact = Path(begun.artifact) if begun.artifact else None
        desk = Desk(begun.target, opened, task, named, begun.choices, begun.seed, artifact)
        return run(begun.record, desk, begun.left)


@contextmanager
def _opened(candidate: Candidate, choices: Choices, seed: int | None) -> Iterator[tuple[Desk, Record]]:
    """The candidate on a desk, and its record before any stage."""
    chosen = checked(choices)
    drawn = secrets.randbits(SEED_BITS) if seed is None else seed
    with open_task(candidate.task, OpenOptions(trust=choices.trust)) as opened:
        task = opened.describe()
        task.signature(candidate.direction)  # one that the task lacks is refused before anything is run
        record = Record(
            candidate=candidate.model_copy(update={"task": task.name}),
            task_version=task.version,
            environment=environment(chosen.device, chosen.gpu),
            options=chosen.options(drawn),
        )
        yield Desk(candidate.task, opened, task, record.candidate, chosen, drawn), record


def checked(choices: Choices) -> Choices:
    """The choices with their device settled; those that suit no candidate at all are refused."""
    chosen = replace(choices, device=settled(choices.device))
    describe(chosen.gpu)
    rows_for(chosen)
    return chosen


def rows_for(choices: Choices) -> tuple[Row, ...]:
    """The stages of the device up to the last one asked for, less those left out."""
    rows = STAGES[choices.device]
    names = [row.name for row in rows]
    if choices.until and choices.until not in names:
        raise UsageError(f"Stage {choices.until} does not exist on {choices.device}; it has {', '.join(names)}.")
    end = names.index(choices.until) + 1 if choices.until else len(rows)
    return tuple(row for row in rows[:end] if row.name not in choices.without)


def run(record: Record, desk: Desk, rows: Sequence[Row]) -> Record:
    """The record with what each stage said, up to the first that objects."""
    if not (record.environment.confined.at_floor or desk.choices.trust):
        return record.adding(_unconfined(record))
    try:
        for need, group in groupby(rows, key=lambda row: row.gpu):
            record = _under_one_lease(record, desk, need, list(group))
            if record.ended:
                break
        if desk.sitting is not None:  # begun for a clock that never ran, and ended while nobody else is timed
            with lease(Need.SHARED):
                desk.close()
    finally:
        desk.close()  # at an interrupt nobody waits for that
    return record


def _under_one_lease(record: Record, desk: Desk, need: Need, rows: Sequence[Row]) -> Record:
    """Stages that need the GPU alike have it in one go: whoever gives it back in between waits for it again."""
    started = time.perf_counter()
    try:
        if need is Need.ALONE:
            desk.get_ready()
        with lease(need):
            for row in rows:
                record = record.adding(_one(row, record, desk))
                if record.ended:
                    break
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - ours, as below
        return record.adding(_fault(rows[0].name, error, started))
    return record


def _one(row: Row, record: Record, desk: Desk) -> StageResult:
    started = time.perf_counter()
    try:
        return row.make(desk)(record)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - our fault, kept in this record so that the next candidate is not touched
        return _fault(row.name, error, started)


def _fault(stage: str, error: Exception, started: float) -> StageResult:
    detail, seconds = f"{type(error).__name__}: {error}", time.perf_counter() - started
    return StageResult(stage=stage, verdict=Verdict.FAULT, reason=Reason.HARNESS, detail=detail, seconds=seconds)


def _unconfined(record: Record) -> StageResult:
    missing = "; ".join(record.environment.confined.missing) or "nothing was achieved"
    detail = (
        f"This machine does not give Landlock, seccomp and another uid ({missing}), so untrusted code is not run. "
        "--trust runs it all the same."
    )
    return StageResult(stage="confine", verdict=Verdict.FAULT, reason=Reason.UNCONFINED, detail=detail)
