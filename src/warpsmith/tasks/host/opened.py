"""A task that was opened: one interface, whether its code is ours and runs here or is not and runs confined."""

from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from warpsmith.records import Direction, Task, Trial
from warpsmith.tasks import filters
from warpsmith.tasks.formats import TaskFormat, TaskTarget, program_for, read_task
from warpsmith.tasks.inputs import ExampleShape

if TYPE_CHECKING:
    from warpsmith.tasks.reference import Problem, TaskProgram

GIB = 1 << 30


@dataclass(frozen=True)
class OpenOptions:
    """What a task's code may use. `seconds` is for one request; `trust` runs it in this process, unconfined."""

    seconds: float = 120.0
    memory_bytes: int = 8 * GIB
    threads: int = 0  # of torch; 0 leaves it to torch
    shapes: tuple[ExampleShape, ...] = ()
    trust: bool = False


class OpenTask(Protocol):
    """What the rest of warpsmith asks of a task."""

    def describe(self) -> Task:
        """The task as data."""
        ...

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """One call with its reference."""
        ...

    def filter(self) -> filters.FilterReport:
        """All filters on it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LocalTask:
    """A trusted task, run in this process. Describing one of our own format runs nothing and loads no torch."""

    def __init__(self, target: TaskTarget, shapes: tuple[ExampleShape, ...] = ()) -> None:
        self._target = target
        self._shapes = shapes

    def describe(self) -> Task:
        """The task as data."""
        if self._target.form in (TaskFormat.SUITE, TaskFormat.OWN):
            return read_task(self._target.path)
        return self.program.task

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """One call with its reference."""
        from warpsmith.tasks.reference import problem

        return problem(self.program, direction, trial)

    def filter(self) -> filters.FilterReport:
        """All filters on it."""
        return filters.apply_filters(self.program)

    @cached_property
    def program(self) -> "TaskProgram":
        """The task as something to run."""
        return program_for(self._target, self._shapes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""
