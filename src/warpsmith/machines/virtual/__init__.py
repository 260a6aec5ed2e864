"""The virtual GPU: compiled kernels run, checked and costed without a GPU. Knows no tasks and no verdicts."""

from warpsmith.machines.virtual.control import Control, Gone, Mute
from warpsmith.machines.virtual.cost import Cost, cost, total
from warpsmith.machines.virtual.description import Description, describe, descriptions
from warpsmith.machines.virtual.facts import Facts, Failure, RawFinding
from warpsmith.machines.virtual.native import driver, executor, runtime
from warpsmith.machines.virtual.process import Settings, VirtualGpu
from warpsmith.machines.virtual.rows import Counters, Row

__all__ = [
    "Control",
    "Cost",
    "Counters",
    "Description",
    "Facts",
    "Failure",
    "Gone",
    "Mute",
    "RawFinding",
    "Row",
    "Settings",
    "VirtualGpu",
    "cost",
    "describe",
    "descriptions",
    "driver",
    "executor",
    "runtime",
    "total",
]
