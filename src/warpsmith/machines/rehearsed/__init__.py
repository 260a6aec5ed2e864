"""A rehearsed GPU: the evaluator of a real GPU, whose workers run on the virtual GPU."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.rehearsed.access import RehearsedAccess
    from warpsmith.machines.rehearsed.machine import REHEARSED_GPUS, TORCH_US, RehearsedMachine

__getattr__ = lazy_members(__name__)
