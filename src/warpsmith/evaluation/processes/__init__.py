"""Evaluator processes: forked once, reused for many evaluations."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.processes.judges import Grade, GradeFor, judges_for, pool_of_judges

__getattr__ = lazy_members(__name__)
