"""What the judge and a confined task say to each other. Knows no torch."""

from enum import IntEnum, StrEnum
from pathlib import Path

from warpsmith.records import Direction, Model, Trial
from warpsmith.tasks.formats import TaskFormat, TaskTarget
from warpsmith.tasks.inputs import ExampleShape

REQUEST = 1  # the kind of every frame to the child


class TaskReply(IntEnum):
    """The kind of a frame from the child."""

    DONE = 1
    REFUSED = 2  # the payload is one sentence for the user
    READY = 3  # once, when torch is loaded and no code of the task has run


class Verb(StrEnum):
    """What is asked."""

    DESCRIBE = "describe"
    PROBLEM = "problem"
    FILTER = "filter"


class TaskRequest(Model):
    """One question; `seconds` is when the judge stops waiting."""

    verb: Verb
    seconds: float
    direction: Direction = Direction.FORWARD
    trial: Trial | None = None


class Opening(Model):
    """The task that a child is started for."""

    form: TaskFormat
    path: str
    name: str
    shapes: tuple[ExampleShape, ...]
    memory_bytes: int

    @property
    def target(self) -> TaskTarget:
        """As the finder gave it."""
        return TaskTarget(self.form, Path(self.path), self.name)
