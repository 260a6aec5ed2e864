"""Open tasks: the interface, and trusted ones here."""

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
    """Limits of a task's code; `trust` runs it unconfined."""

    seconds: float = 120.0
    memory_bytes: int = 8 * GIB
    threads: int = 0  # of torch; 0: one a core, at most 16
    shapes: tuple[ExampleShape, ...] = ()  # example inputs of a module that has none
    trust: bool = False


class OpenTask(Protocol):
    """An open task, used in a `with` block."""

    def describe(self) -> Task:
        """Return the task's description: cases, tolerances, formulas."""
        ...

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """Return the arguments of one test input with their reference results."""
        ...

    def filter(self) -> filters.FilterReport:
        """Run all task filters and return their report."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LocalTask:
    """A trusted task in this process."""

    def __init__(self, target: TaskTarget, shapes: tuple[ExampleShape, ...] = ()) -> None:
        self._target = target
        self._shapes = shapes

    def describe(self) -> Task:
        """Return the task's description: cases, tolerances, formulas."""
        if self._target.form in (TaskFormat.SUITE, TaskFormat.OWN):
            # Read from the text: describing a suite task must not load torch.
            return read_task(self._target.path)
        return self.program.task

    def problem(self, direction: Direction, trial: Trial) -> "Problem":
        """Return the arguments of one test input with their reference results."""
        from warpsmith.tasks.reference import problem

        return problem(self.program, direction, trial)

    def filter(self) -> filters.FilterReport:
        """Run all task filters and return their report."""
        return filters.apply_filters(self.program)

    @cached_property
    def program(self) -> "TaskProgram":
        """The task's code, loaded."""
        return program_for(self._target, self._shapes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no process was started."""
