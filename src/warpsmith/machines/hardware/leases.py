"""Leases of a GPU as locked files."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path

from warpsmith.base import Home, hold_lock, lock_any
from warpsmith.machines.hardware.gpu import gpus

# At once: much of a check's time is the host's, but a GPU serves the processes that share it in turns, and a call waits
# for turns of its evaluator and its worker. Four took 2.5 s on an H200, two 1.7 s, and one 1.3 s at first and 0.8 s
# later.
CALLERS = 4


class Need(StrEnum):
    """The use of a GPU by a stage."""

    NONE = "none"
    SHARED = "shared"  # with other checks, but not while a kernel is timed
    ALONE = "alone"


@contextmanager
def calling(uuid: str = "") -> Iterator[None]:
    """Hold one of the four places for calls."""
    with lock_any([_lock(uuid, f"caller-{number}") for number in range(CALLERS)]):
        yield


@contextmanager
def much_memory(uuid: str = "") -> Iterator[None]:
    """Hold the only place for large arenas of a GPU."""
    with hold_lock(_lock(uuid, "memory")):
        yield


def _lock(uuid: str, name: str) -> Path:
    """Return the path of a GPU's lock file."""
    # Locks are named after the UUID: CUDA's numbers differ between processes with different
    # CUDA_VISIBLE_DEVICES, and two names for one card would be two leases.
    card = uuid or next((gpu.uuid for gpu in gpus()), "") or "gpu-0"
    return Home.locate().data / "leases" / f"{card}.{name}"


_held: ContextVar[Need] = ContextVar("held", default=Need.NONE)


def is_held_alone() -> bool:
    """Return whether the caller holds an exclusive lease."""
    return _held.get() is Need.ALONE


@contextmanager
def lease(need: Need, uuid: str = "") -> Iterator[None]:
    """Hold one GPU, shared or exclusively."""
    # Lock order: first door, then lock, then the places for memory and calls. A stage that waits for
    # exclusive use keeps the door, so that no new shared holder can overtake it; without the door a
    # stream of checks would starve timing.
    if need is Need.NONE:
        yield
        return
    with hold_lock(_lock(uuid, "door")):
        use = hold_lock(_lock(uuid, "lock"), shared=need is Need.SHARED)
        # The door is released as soon as the lease is held: it orders those that wait and must not be
        # held during a stage. The kernel drops file locks when a process dies, so no lease survives a
        # crash.
        use.__enter__()
    before = _held.set(need)
    try:
        yield
    finally:
        _held.reset(before)
        use.__exit__(None, None, None)
