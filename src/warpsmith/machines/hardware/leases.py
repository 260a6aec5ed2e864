"""Leases of a GPU as locked files, so that the end of a process gives its lease back."""

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
    """Wait to be one of the few that make calls, while others start and end their processes."""
    with lock_any([_lock(uuid, f"caller-{number}") for number in range(CALLERS)]):
        yield


@contextmanager
def much_memory(uuid: str = "") -> Iterator[None]:
    """Wait to be the only check that takes a large part of the GPU's memory, beside others that do not."""
    with hold_lock(_lock(uuid, "memory")):
        yield


def _lock(uuid: str, name: str) -> Path:
    """Return the path of a lock of one GPU; without a UUID, of the first visible one."""
    card = uuid or next((gpu.uuid for gpu in gpus()), "") or "gpu-0"
    return Home.locate().data / "leases" / f"{card}.{name}"


_held: ContextVar[Need] = ContextVar("held", default=Need.NONE)


def is_held_alone() -> bool:
    """Whether the caller runs under a lease that keeps all other evaluations from the GPU."""
    return _held.get() is Need.ALONE


@contextmanager
def lease(need: Need, uuid: str = "") -> Iterator[None]:
    """Hold one GPU among threads and processes; without a UUID, the first visible one.

    The lock named door comes first for either use: a timing stage that waits holds it, so that a stream of checks
    cannot keep that stage waiting for ever.
    """
    if need is Need.NONE:
        yield
        return
    with hold_lock(_lock(uuid, "door")):
        use = hold_lock(_lock(uuid, "lock"), shared=need is Need.SHARED)
        use.__enter__()
    before = _held.set(need)
    try:
        yield
    finally:
        _held.reset(before)
        use.__exit__(None, None, None)
