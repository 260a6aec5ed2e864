"""The virtual GPU: compiled kernels run, checked and costed without a GPU. Knows no tasks and no verdicts."""

from warpsmith.vgpu.control import Control, Gone, Mute
from warpsmith.vgpu.cost import Cost, cost, total
from warpsmith.vgpu.description import Description, describe, descriptions
from warpsmith.vgpu.facts import Facts, Failure, RawFinding
from warpsmith.vgpu.native import driver, executor, runtime
from warpsmith.vgpu.process import Settings, VirtualGpu
from warpsmith.vgpu.rows import Counters, Row

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
