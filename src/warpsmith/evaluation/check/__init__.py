"""Is it right: which calls are made, what is looked at, and the comparison with the float64 reference.

What loads no torch can be had from here: whoever only plans, or compiles first, does not wait for it.
"""

from warpsmith.evaluation.check.plan import Scope, Step, plan, usual_groups
from warpsmith.evaluation.check.seen import Seen, cases_of

__all__ = ["Scope", "Seen", "Step", "cases_of", "plan", "usual_groups"]
