"""Leases of the GPU: a clock needs it alone, a check shares it with other checks. Files hold them: a kill frees."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path

from warpsmith.base import Home, locked, one_of

# At once: most of a check's time is the host's. But a GPU serves the processes that share it in turn, and a clock waits
# for all of them.
CHECKS = 4


class Need(StrEnum):
    """How a stage needs the GPU."""

    NONE = "none"
    SHARED = "shared"  # with other checks, but not while somebody is timed
    ALONE = "alone"


@contextmanager
def much_memory() -> Iterator[None]:
    """For a check that takes a large part of the GPU's memory: one at a time, beside others that do not."""
    with locked(_folder() / "gpu-0.memory"):
        yield


def _folder() -> Path:
    return Home.here().data / "leases"


@contextmanager
def lease(need: Need) -> Iterator[None]:
    """The GPU as it is needed, among threads and processes.

    Whoever wants it, for either use, first passes the door: a clock that waits closes it, so that a stream of checks
    cannot keep it waiting for ever.
    """
    if need is Need.NONE:
        with nullcontext():
            yield
        return
    folder = _folder()
    shared = need is Need.SHARED
    places = [folder / f"gpu-0.check-{number}" for number in range(CHECKS)]
    with one_of(places) if shared else nullcontext():
        with locked(folder / "gpu-0.door"):
            use = locked(folder / "gpu-0.lock", shared=shared)
            use.__enter__()
        try:
            yield
        finally:
            use.__exit__(None, None, None)
