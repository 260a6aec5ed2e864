"""The search: translate, propose, tune, select, learn; ask and tell. Sees records only, never a GPU."""

from warpsmith.languages.cuda.tunables import Space, Tunable, read_space
from warpsmith.search.generation import Evaluate
from warpsmith.search.loop import Aim, Search, Tools
from warpsmith.search.planner import Shape
from warpsmith.search.proposals.opinion import Opinion, Screen
from warpsmith.search.proposals.prompts import Subject
from warpsmith.search.selection.stops import Limits
from warpsmith.search.view import Ending, View

__all__ = [
    "Aim",
    "Ending",
    "Evaluate",
    "Limits",
    "Opinion",
    "Screen",
    "Search",
    "Shape",
    "Space",
    "Subject",
    "Tools",
    "Tunable",
    "View",
    "read_space",
]
