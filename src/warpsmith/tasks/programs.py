"""A found task as a program, run in this process: the caller has confined it or trusts the task."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.tasks.own import OwnProgram
from warpsmith.tasks.shapes import Shape
from warpsmith.tasks.target import Form, Target

if TYPE_CHECKING:
    from warpsmith.tasks.program import Program


def program_for(target: Target, shapes: Sequence[Shape] = ()) -> "Program":
    """The program of a target, by its format. Torch comes with the foreign ones."""
    match target.form:
        case Form.SUITE | Form.OWN:
            return OwnProgram(target.path)
        case Form.ROBUST_KBENCH:
            from warpsmith.tasks.robust_kbench import KbenchProgram

            return KbenchProgram(target.path)
        case Form.KERNELBENCH:
            from warpsmith.tasks.kernelbench import kernelbench

            return kernelbench(target.path)
        case Form.MODULE:
            from warpsmith.tasks.user import user_program

            return user_program(target.path, target.name, shapes)
