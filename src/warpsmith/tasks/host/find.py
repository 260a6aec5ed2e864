"""From what a user wrote to an open task: ours in this process, everybody else's confined."""

from warpsmith.base import UsageError
from warpsmith.tasks.formats import TaskFormat, TaskTarget, find, find_all
from warpsmith.tasks.host.client import TaskClient
from warpsmith.tasks.host.opened import LocalTask, OpenOptions, OpenTask
from warpsmith.tasks.inputs import read_shape


def open_task(target: str | TaskTarget, options: OpenOptions | None = None) -> OpenTask:
    """The task to ask; use it in a `with` block."""
    chosen = options or OpenOptions()
    found = find(target) if isinstance(target, str) else target
    if chosen.shapes and found.form is not TaskFormat.MODULE:
        raise UsageError(f"Task {found.label} has inputs of its own; --input is for file.py:Name alone.")
    if found.form is TaskFormat.SUITE or chosen.trust:
        return LocalTask(found, chosen.shapes)
    return TaskClient(found, chosen)


__all__ = ["OpenOptions", "OpenTask", "TaskFormat", "TaskTarget", "find", "find_all", "open_task", "read_shape"]
