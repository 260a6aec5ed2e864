"""Before the GPU: what can be said of a candidate without one, what each voice is worth, and whether to go on.

`verify.virtual` is had from its own file: it loads torch.
"""

from warpsmith.verify.aggregate import Decision, Signal, Weights, decide, load_weights
from warpsmith.verify.pipeline import Ask, Verified, Verifiers, verify
from warpsmith.verify.review import (
    BadAnswer,
    Review,
    Role,
    Subject,
    objection,
    panel_prompt,
    read_panel,
    read_review,
    review_prompt,
)
from warpsmith.verify.static import look_static
from warpsmith.verify.trial import try_virtually

__all__ = [
    "Ask",
    "BadAnswer",
    "Decision",
    "Review",
    "Role",
    "Signal",
    "Subject",
    "Verified",
    "Verifiers",
    "Weights",
    "decide",
    "load_weights",
    "look_static",
    "objection",
    "panel_prompt",
    "read_panel",
    "read_review",
    "review_prompt",
    "try_virtually",
    "verify",
]
