"""Requests and replies of a task process."""

from enum import IntEnum, StrEnum
from pathlib import Path

from warpsmith.records import Direction, Model, Trial
from warpsmith.tasks.formats import TaskFormat, TaskTarget
from warpsmith.tasks.inputs import ExampleShape

REQUEST = 1  # the kind of every frame to the task process


class TaskReply(IntEnum):
    """The kind of a frame from the task process."""

    DONE = 1
    REFUSED = 2  # the payload is one sentence for the user
    READY = 3  # sent once: torch is loaded, and no code of the task has run


class Verb(StrEnum):
    """The operation that a request asks for."""

    DESCRIBE = "describe"
    PROBLEM = "problem"
    FILTER = "filter"


class TaskRequest(Model):
    """One request, with its limit in seconds."""

    verb: Verb
    seconds: float
    direction: Direction = Direction.FORWARD
    trial: Trial | None = None


class Opening(Model):
    """The command-line argument of a task process: its task and its memory limit."""

    form: TaskFormat
    path: str
    name: str
    shapes: tuple[ExampleShape, ...]
    memory_bytes: int

    @property
    def target(self) -> TaskTarget:
        """The task's target."""
        return TaskTarget(self.form, Path(self.path), self.name)
