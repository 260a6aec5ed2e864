"""Reference results and gradients of a task in float64."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.reference.fresh import outline, problems
    from warpsmith.tasks.reference.program import (
        Problem,
        TaskProgram,
        TwoSided,
        checked,
        differentiable,
        gradient_names,
        gradients,
        leaves,
        moved,
        problem,
        sided,
        upstream,
    )

__getattr__ = lazy_members(__name__)
