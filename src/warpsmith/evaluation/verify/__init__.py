"""Before the GPU: what can be said of a candidate without one, what each voice is worth, and whether to go on.

`verify.virtual` is had from its own file: it loads torch.
"""

from warpsmith.evaluation.verify.pipeline import Verifiers, verify

__all__ = ["Verifiers", "verify"]
