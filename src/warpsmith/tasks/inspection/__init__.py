"""What the code of a foreign task says about its arguments, shapes and costs."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.inspection.bound import NUMBERS, BoundArgument, renamed, values
    from warpsmith.tasks.inspection.modes import CPU, lifted, on_device
    from warpsmith.tasks.inspection.shrink import smaller, smoke
    from warpsmith.tasks.inspection.source import Head, Source, called, overridden
    from warpsmith.tasks.inspection.survey import described, plain_backward

__getattr__ = lazy_members(__name__)
