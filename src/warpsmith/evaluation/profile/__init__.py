"""Find what binds a kernel: counters, times, resources and the roofline, from the best available source."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.profile.binding import BindingResource, Use, WaitingFacts, find_binding
    from warpsmith.evaluation.profile.ceilings import find_ceilings
    from warpsmith.evaluation.profile.digest import WORDS, ceilings_text, hot_lines, profile_digest
    from warpsmith.evaluation.profile.ncu import CURE, explain_missing_report
    from warpsmith.evaluation.profile.resources import describe_losses
    from warpsmith.evaluation.profile.run import ProfileJob, profile_cuda, profile_virtual
    from warpsmith.evaluation.profile.virtual import datasheet_ceilings, longest
    from warpsmith.evaluation.profile.words import (
        explain_metric,
        metric,
        microseconds,
        plain_name,
        scaled,
        share,
        short_name,
    )

__getattr__ = lazy_members(__name__)
