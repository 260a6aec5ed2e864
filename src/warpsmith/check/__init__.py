"""Is it right: which calls are made, what is looked at, and the comparison with the float64 reference."""

from warpsmith.check.compare import Comparison, compare
from warpsmith.check.fault import Fault, Looked, look
from warpsmith.check.plan import Scope, Step, plan
from warpsmith.check.run import Checked, Seen, Subject, check

__all__ = [
    "Checked",
    "Comparison",
    "Fault",
    "Looked",
    "Scope",
    "Seen",
    "Step",
    "Subject",
    "check",
    "compare",
    "look",
    "plan",
]
