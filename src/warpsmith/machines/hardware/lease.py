"""Leases of the GPU: a clock needs it alone, a check shares it with other checks. Files hold them: a kill frees."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path

from warpsmith.base import Home, hold_lock, lock_any

# At once: much of a check's time is the host's, but a GPU serves the processes that share it in turns, and a call waits
# for turns of its judge and its worker. Four took 2.5 s on an H200, two 1.7 s, and one 1.3 s at first and 0.8 s later.
CALLERS = 4


class Need(StrEnum):
    """How a stage needs the GPU."""

    NONE = "none"
    SHARED = "shared"  # with other checks, but not while somebody is timed
    ALONE = "alone"


@contextmanager
def calling() -> Iterator[None]:
    """Among those that share the GPU: one of the few that make calls, while others begin and end their processes."""
    with lock_any([_folder() / f"gpu-0.caller-{number}" for number in range(CALLERS)]):
        yield


@contextmanager
def much_memory() -> Iterator[None]:
    """For a check that takes a large part of the GPU's memory: one at a time, beside others that do not."""
    with hold_lock(_folder() / "gpu-0.memory"):
        yield


def _folder() -> Path:
    return Home.locate().data / "leases"


_held: ContextVar[Need] = ContextVar("held", default=Need.NONE)


def is_held_alone() -> bool:
    """Whether the caller runs under a lease that keeps all other evaluations from the GPU."""
    return _held.get() is Need.ALONE


@contextmanager
def lease(need: Need) -> Iterator[None]:
    """The GPU as it is needed, among threads and processes.

    Whoever wants it, for either use, first passes the door: a clock that waits closes it, so that a stream of checks
    cannot keep it waiting for ever.
    """
    if need is Need.NONE:
        yield
        return
    folder = _folder()
    with hold_lock(folder / "gpu-0.door"):
        use = hold_lock(folder / "gpu-0.lock", shared=need is Need.SHARED)
        use.__enter__()
    before = _held.set(need)
    try:
        yield
    finally:
        _held.reset(before)
        use.__exit__(None, None, None)
