"""Why a kernel takes its time: counters, times, resources and the roofline, from the best source that is there."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.profile.binding import BindingResource, Use, WaitingFacts, decide
    from warpsmith.evaluation.profile.ceilings import known_ceilings
    from warpsmith.evaluation.profile.digest import WORDS, ceilings_text, hot_lines, profile_digest
    from warpsmith.evaluation.profile.meaning import told
    from warpsmith.evaluation.profile.names import plain_name, short_name
    from warpsmith.evaluation.profile.ncu import CURE, why_nothing
    from warpsmith.evaluation.profile.resources import losses
    from warpsmith.evaluation.profile.run import ProfileJob, profile_cuda, profile_virtual
    from warpsmith.evaluation.profile.units import metric, microseconds, scaled, share
    from warpsmith.evaluation.profile.virtual import datasheet, longest

__getattr__ = lazy_members(__name__)
