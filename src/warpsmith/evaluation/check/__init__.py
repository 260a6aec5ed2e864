"""Is it right: which calls are made, what is looked at, and the comparison with the float64 reference.

What loads no torch can be had from here: whoever only plans, or compiles first, does not wait for it.
"""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.check.fault import look
    from warpsmith.evaluation.check.plan import PlannedCall, PlanScope, plan_steps, usual_groups, work
    from warpsmith.evaluation.check.run import Checked, CheckSubject, check
    from warpsmith.evaluation.check.sanitizer import SanitizerReport, read_sanitizer
    from warpsmith.evaluation.check.seen import PassedCall, cases_of
    from warpsmith.evaluation.check.terms import EASY_FACTOR, EASY_ROUNDOFFS

__getattr__ = lazy_members(__name__)
