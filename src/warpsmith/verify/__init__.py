"""Before the GPU: what can be said of a candidate without one, what each voice is worth, and whether to go on."""

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
from warpsmith.verify.trial import Ground, try_virtually
from warpsmith.verify.virtual import VirtualRun, run_virtual

__all__ = [
    "Ask",
    "BadAnswer",
    "Decision",
    "Ground",
    "Review",
    "Role",
    "Signal",
    "Subject",
    "Verified",
    "Verifiers",
    "VirtualRun",
    "Weights",
    "decide",
    "load_weights",
    "look_static",
    "objection",
    "panel_prompt",
    "read_panel",
    "read_review",
    "review_prompt",
    "run_virtual",
    "try_virtually",
    "verify",
]
