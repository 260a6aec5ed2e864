"""Filters that measure whether a task is sound."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.filters.apply import SECONDS, apply_filters
    from warpsmith.tasks.filters.opinion import SYSTEM, Opinion, TaskOpinion, add_opinion, opinion_prompt, parse_opinion
    from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Measure, Sense, Skip

__getattr__ = lazy_members(__name__)
