"""The search: translate, propose, tune, select, learn; ask and tell. Sees records only, never a GPU."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.cuda import Space, Tunable, read_space
    from warpsmith.search.dialogue import Dialogue, Somebody, Told, open_slots
    from warpsmith.search.generation import Evaluate
    from warpsmith.search.loop import Aim, Search, Tools
    from warpsmith.search.planner import Shape
    from warpsmith.search.proposals import Opinion, PromptContext, Screen
    from warpsmith.search.selection import Limits
    from warpsmith.search.start import first_candidate
    from warpsmith.search.view import Ending, RunView

__getattr__ = lazy_members(__name__)
