"""Why a kernel takes its time: counters, times, resources and the roofline, from the best source that is there."""

from warpsmith.evaluation.profile.binding import Bound, Use, Waiting, decide
from warpsmith.evaluation.profile.ceilings import known_ceilings
from warpsmith.evaluation.profile.digest import digest
from warpsmith.evaluation.profile.ncu import why_nothing
from warpsmith.evaluation.profile.plot import Mark, roofline_svg
from warpsmith.evaluation.profile.run import Job, profile_cuda, profile_virtual
from warpsmith.evaluation.profile.virtual import datasheet

__all__ = [
    "Bound",
    "Job",
    "Mark",
    "Use",
    "Waiting",
    "datasheet",
    "decide",
    "digest",
    "known_ceilings",
    "profile_cuda",
    "profile_virtual",
    "roofline_svg",
    "why_nothing",
]
