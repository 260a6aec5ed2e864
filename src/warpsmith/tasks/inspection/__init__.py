"""Inspection of foreign tasks: arguments, shapes and costs, found by running their code."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.inspection.bound import NUMBERS, BoundArgument, argument_values, with_valid_names
    from warpsmith.tasks.inspection.modes import CPU, cast_to_float64, run_on_device
    from warpsmith.tasks.inspection.source import Source, TaskHead, call_on_copies, override_names
    from warpsmith.tasks.inspection.survey import default_backward, describe_task, smaller_axes, smoke_case

__getattr__ = lazy_members(__name__)
