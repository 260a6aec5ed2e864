"""An NVIDIA GPU as the machine where a candidate runs."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.cuda.access import (
        CUDA,
        FIRST_FD,
        LIMITS,
        MARGINS,
        CudaAccess,
        GpuAccess,
        Margins,
        SharedMemory,
    )
    from warpsmith.machines.cuda.flush import events_us
    from warpsmith.machines.cuda.health import FAULTS, see_healthy
    from warpsmith.machines.cuda.machine import CudaMachine, GivenTimes
    from warpsmith.machines.cuda.memory import whole_granules
    from warpsmith.machines.cuda.player import Player
    from warpsmith.machines.cuda.profiled import ProfiledCall, UnderTool, Walls, run_under
    from warpsmith.machines.cuda.room import Buffers, Room, room_around, room_for, room_for_all
    from warpsmith.machines.cuda.session import CudaSession, RepeatableCall
    from warpsmith.machines.cuda.slot import Edge

__getattr__ = lazy_members(__name__)
