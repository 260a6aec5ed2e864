"""The virtual GPU: compiled kernels run, checked and costed without a GPU. Knows no tasks and no verdicts."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.virtual.control import Control, Gone, Mute
    from warpsmith.machines.virtual.cost import LaunchCost, Transfers, modelled_cost, total
    from warpsmith.machines.virtual.description import Description, describe, descriptions, gpu_identity
    from warpsmith.machines.virtual.facts import ExecutorFailure, Facts, RawFinding
    from warpsmith.machines.virtual.machine import VirtualMachine
    from warpsmith.machines.virtual.native import driver, executor, runtime
    from warpsmith.machines.virtual.process import ExecutorSettings, VirtualGpu
    from warpsmith.machines.virtual.rows import Counters, LaunchRow
    from warpsmith.machines.virtual.session import SETTINGS, VirtualSession

__getattr__ = lazy_members(__name__)
