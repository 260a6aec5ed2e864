"""Where a candidate runs: the worker process, NVIDIA GPUs and the virtual GPU."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.machine import CheckLimits, Machine

__getattr__ = lazy_members(__name__)
