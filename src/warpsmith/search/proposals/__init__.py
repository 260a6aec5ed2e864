"""How a proposal is asked for: ideas, operators, prompts, answers."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.search.proposals.gpu import gpu_words
    from warpsmith.search.proposals.ideas import Idea, applicable, sample
    from warpsmith.search.proposals.lessons import MOST_KEPT, kept, lesson_of
    from warpsmith.search.proposals.operators import OPERATORS, SEED, TRANSLATE, TUNE, usable
    from warpsmith.search.proposals.opinion import Opinion, Screen
    from warpsmith.search.proposals.prompts import Broken, PromptContext
    from warpsmith.search.proposals.proposer import Made, Proposer

__getattr__ = lazy_members(__name__)
