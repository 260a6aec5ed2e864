"""The search for a faster kernel, from records only."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.cuda import Space, Tunable, read_space
    from warpsmith.search.config import SAVED, SearchConfig
    from warpsmith.search.dialogue import Dialogue, ExternalModel, TellResult, open_slots
    from warpsmith.search.generation import Evaluate
    from warpsmith.search.loop import Search, SearchEnding, SearchTask, SearchTools, SearchView
    from warpsmith.search.proposals import PromptContext, applicable_ideas, describe_gpu
    from warpsmith.search.slots import Opinion, Screen

__getattr__ = lazy_members(__name__)
