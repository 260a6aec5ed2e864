"""The check of a kernel: the planned calls, what each call showed, and the comparison with the float64 reference.

Members are loaded on first access: planning a check and compiling a kernel do not wait for torch.
"""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.check.fault import check_call
    from warpsmith.evaluation.check.plan import PlannedCall, PlanScope, case_work, groups_with_cases, plan_steps
    from warpsmith.evaluation.check.run import Checked, CheckSubject, check
    from warpsmith.evaluation.check.sanitizer import SanitizerReport, read_sanitizer
    from warpsmith.evaluation.check.seen import PassedCall, called_cases
    from warpsmith.evaluation.check.terms import EASY_FACTOR, EASY_ROUNDOFFS

__getattr__ = lazy_members(__name__)
