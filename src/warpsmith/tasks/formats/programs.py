"""Programs of task targets, which run in this process."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.tasks.formats.own import OwnProgram
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget
from warpsmith.tasks.inputs import ExampleShape

if TYPE_CHECKING:
    from warpsmith.tasks.reference import TaskProgram


def program_for(target: TaskTarget, shapes: Sequence[ExampleShape] = ()) -> "TaskProgram":
    """Return a target's program by its format."""
    match target.form:
        case TaskFormat.SUITE | TaskFormat.OWN:
            return OwnProgram(target.path)
        case TaskFormat.ROBUST_KBENCH:
            from warpsmith.tasks.formats.robust_kbench import KbenchProgram

            return KbenchProgram(target.path)
        case TaskFormat.KERNELBENCH:
            from warpsmith.tasks.formats.kernelbench import kernelbench

            return kernelbench(target.path)
        case TaskFormat.MODULE:
            from warpsmith.tasks.formats.user import user_program

            return user_program(target.path, target.name, shapes)
