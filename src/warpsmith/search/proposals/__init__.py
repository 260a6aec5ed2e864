"""Proposals: ideas, operators, prompts and answers."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.search.proposals.evidence import MOST_KEPT, describe_gpu, latest_lessons, make_lesson
    from warpsmith.search.proposals.operators import (
        OPERATORS,
        SEED,
        TRANSLATE,
        TUNE,
        Idea,
        applicable_ideas,
        draw_idea,
        load_ideas,
        usable_operators,
    )
    from warpsmith.search.proposals.prompts import BrokenKernel, PromptContext
    from warpsmith.search.proposals.proposer import ProposedCandidate, Proposer

__getattr__ = lazy_members(__name__)
