"""The search: translate, propose, tune, select, learn; ask and tell. Sees records only, never a GPU."""

from warpsmith.evolve.generation import Evaluate
from warpsmith.evolve.loop import Aim, Search, Tools
from warpsmith.evolve.opinion import Opinion, Screen
from warpsmith.evolve.planner import Shape
from warpsmith.evolve.prompts import Subject
from warpsmith.evolve.stops import Limits
from warpsmith.evolve.tune import Space, Tunable, read_space
from warpsmith.evolve.view import Ending, View

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
