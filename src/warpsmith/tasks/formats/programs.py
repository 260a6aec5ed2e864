"""A found task as a program, run in this process: the caller has confined it or trusts the task."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.tasks.formats.own import OwnProgram
from warpsmith.tasks.formats.target import Form, Target
from warpsmith.tasks.inputs import Shape

if TYPE_CHECKING:
    from warpsmith.tasks.reference import Program


def program_for(target: Target, shapes: Sequence[Shape] = ()) -> "Program":
    """The program of a target, by its format. Torch comes with the foreign ones."""
    match target.form:
        case Form.SUITE | Form.OWN:
            return OwnProgram(target.path)
        case Form.ROBUST_KBENCH:
            from warpsmith.tasks.formats.robust_kbench import KbenchProgram

            return KbenchProgram(target.path)
        case Form.KERNELBENCH:
            from warpsmith.tasks.formats.kernelbench import kernelbench

            return kernelbench(target.path)
        case Form.MODULE:
            from warpsmith.tasks.formats.user import user_program

            return user_program(target.path, target.name, shapes)
